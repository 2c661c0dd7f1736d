"""The chat template of a checkpoint, rendered as the package transformers does."""

import json
from datetime import datetime

from .files import CONFIG_BYTES, InputError, first_line, need, read_bytes, read_json


class ChatTemplate:
    def __init__(self, config):
        self._jinja2 = need("jinja2")
        self._path, source = _find(config)
        self._variables = config.special
        try:
            self._template = self._environment().from_string(source)
        except self._jinja2.TemplateSyntaxError as error:
            raise InputError(
                f"{self._path}: line {error.lineno} of the chat template: {first_line(error.message)}"
            ) from error
        except Exception as error:  # of the Python code that it becomes
            raise InputError(f"{self._path}: the chat template cannot be compiled: {first_line(error)}") from error

    def render(self, messages, add_generation_prompt):
        try:
            return self._template.render(
                messages=messages, tools=None, documents=None, add_generation_prompt=add_generation_prompt,
                **self._variables)  # fmt: skip
        except Exception as error:
            raise InputError(f"{self._path}: the chat template refuses the prompt: {first_line(error)}") from error

    def _environment(self):
        jinja2 = self._jinja2
        need("jinja2.sandbox")

        class Generation(need("jinja2.ext").Extension):
            """`{% generation %}` marks what a model is trained on; the text in it stays."""

            tags = {"generation"}

            def parse(self, parser):
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

            def _body(self, caller):
                return caller()

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])  # fmt: skip
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = self._raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        return environment

    def _raise(self, message):
        raise self._jinja2.TemplateError(message)


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """Unlike Jinja's own filter, without escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _find(config):
    """The file and the text of the template: the one named "default" where there are several."""
    if config.folder.is_file():
        if not config.chat_template:
            raise InputError(f"{config.folder}: there is no chat template: no key 'tokenizer.chat_template'")
        return config.folder, _choose(config.folder, {"default": config.chat_template})
    path = config.folder / "chat_template.jinja"
    more = sorted((config.folder / "additional_chat_templates").glob("*.jinja"))
    if path.exists() or more:
        named = {file.stem: _text(file) for file in more}
        if path.exists():
            named["default"] = _text(path)
        return path, _choose(path, named)
    for path in (config.folder / "tokenizer_config.json", config.folder / "chat_template.json"):
        found = read_json(path).get("chat_template")
        if isinstance(found, list):
            found = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        if found:
            return path, _choose(path, found if isinstance(found, dict) else {"default": found})
    raise InputError(
        f"'{config.folder}' has no chat template: neither in chat_template.jinja, tokenizer_config.json nor "
        "chat_template.json"
    )


def _choose(path, named):
    if "default" in named and not isinstance(named["default"], str):
        raise InputError(f"{path}: the chat template must be a text, and is {json.dumps(named['default'])[:60]}")
    if "default" not in named:
        raise InputError(f"{path}: no chat template is named 'default'; there is {', '.join(map(str, named))}")
    return named["default"]


def _text(path):
    try:
        return read_bytes(path, CONFIG_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a chat template must be UTF-8") from error
