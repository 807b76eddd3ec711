"""One module per API, named after it: its request, its response, and the structs inside them.

Modules are imported when somebody asks for them, here or through `odradek.wire.api`. Struct names are those
of Kafka's definitions; where a request and a response of one API have different structs of one name, the
response's begins with "Response".
"""
