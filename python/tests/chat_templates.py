"""Chat templates in the form of public models, with the prompt that transformers 5.24 renders of one message " hi "."""

ALTERNATE = "raise_exception('Conversation roles must alternate user/assistant/user/assistant/...')"

# name: template, prompt, the token after an answer. <s> and </s> are the first and the last token of a text.
CHATS = {
    "llama2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
        "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
        "{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "
        + ALTERNATE + " }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' "
        "+ system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}"
        "{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif "
        "message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
        "<s>[INST] hi [/INST]",
        "</s>",
    ),
    "llama3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
        "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
        "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
        "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        "<s><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    "llama3.1": (
        "{{- bos_token }}\n{%- if custom_tools is defined %}\n    {%- set tools = custom_tools %}\n{%- endif %}\n"
        "{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" %}\n{%- endif %}\n"
        "{%- if not tools is defined %}\n    {%- set tools = none %}\n{%- endif %}\n{%- set system_message = \"\" %}\n"
        "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n{%- if tools is not none %}\n"
        "    {{- \"Environment: ipython\\n\" }}\n{%- endif %}\n{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n"
        "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n"
        "{%- for message in messages %}\n    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}\n"
        "        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + "
        "'<|eot_id|>' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
        "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n",
        "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024"
        "\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant"
        "<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    "mistral": (
        "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "
        + ALTERNATE + " }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only "
        "user and assistant roles are supported!') }}{% endif %}{% endfor %}",
        "<s>[INST]  hi  [/INST]",
        "</s>",
    ),
    "gemma": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "
        + ALTERNATE + " }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set "
        "role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + "
        "'<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
        "<s><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n",
        "<end_of_turn>",
    ),
    "qwen2": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
        "are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
        "'<|im_start|>assistant\n' }}{% endif %}",
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n hi <|im_end|>\n"
        "<|im_start|>assistant\n",
        "<|im_end|>",
    ),
    "chatml": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
        "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        "<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\n",
        "<|im_end|>",
    ),
    "zephyr": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
        "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
        "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
        "<|user|>\n hi </s>\n<|assistant|>\n",
        "</s>",
    ),
    "phi3": (
        "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + "
        "'<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif "
        "message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
        "<|user|>\n hi <|end|>\n<|assistant|>\n",
        "<|end|>",
    ),
    "deepseek": (
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}"
        "{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\n\n' }}"
        "{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}{% elif "
        "message['role'] == 'system' %}{{ message['content'] + '\n\n' }}{% endif %}{% endfor %}{% if "
        "add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
        "<s>User:  hi \n\nAssistant:",
        "</s>",
    ),
    "solar": (
        "{% for message in messages %}{% if message['role'] == 'system' %}{% if message['content']%}{{'### System:\n' + "
        "message['content']+'\n\n'}}{% endif %}{% elif message['role'] == 'user' %}{{'### User:\n' + "
        "message['content']+'\n\n'}}{% elif message['role'] == 'assistant' %}{{'### Assistant:\n'  + "
        "message['content']}}{% endif %}{% if loop.last and add_generation_prompt %}{{ '### Assistant:\n' }}{% endif %}"
        "{% endfor %}",
        "### User:\n hi \n\n### Assistant:\n",
        None,
    ),
    "granite": (
        "{%- for message in messages %}\n    {%- if message['role'] == 'system' %}\n    {{- '<|system|>\\n' + "
        "message['content'] + '\\n' }}\n    {%- elif message['role'] == 'user' %}\n    {{- '<|user|>\\n' + "
        "message['content'] + '\\n' }}\n    {%- elif message['role'] == 'assistant' %}\n    {{- '<|assistant|>\\n' + "
        "message['content'] + eos_token + '\\n' }}\n    {%- endif %}\n    {%- if loop.last and add_generation_prompt %}\n"
        "    {{- '<|assistant|>\\n' }}\n    {%- endif %}\n{%- endfor %}",
        "<|user|>\n hi \n<|assistant|>\n",
        "</s>",
    ),
    "smollm3": (
        "{# marks of training #}\n{%- set ns = namespace(found=false) -%}\n{%- for message in messages -%}\n"
        "    {%- if message.role == 'tool' -%}{%- continue -%}{%- endif -%}\n    {%- set content = message.content if "
        "message.content is string else '' -%}\n    {%- if message.role == 'user' -%}\n        {%- set ns.found = true "
        "-%}\n        {{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}\n    {%- else -%}\n"
        "        {% generation %}\n        {{ '<|im_start|>assistant\\n' + content.lstrip('\\n') + '<|im_end|>\\n' }}\n"
        "        {% endgeneration %}\n    {%- endif -%}\n{%- endfor -%}\n{%- if add_generation_prompt and ns.found -%}\n"
        "{{ '<|im_start|>assistant\\n' }}\n{%- endif -%}",
        "<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\n",
        "<|im_end|>",
    ),
}  # fmt: skip
