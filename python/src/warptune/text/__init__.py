"""Text of a checkpoint: ids of prompts, chat templates, and text of ids as they arrive.

`python3 -m warptune.text MODEL` serves the program `warptune` (__main__.py). It needs the packages of
requirements.txt and nothing else of this package.
"""
