"""Logs in by Kerberos, writes one record and reads it back: SERVERS TOPIC [PRINCIPAL KEYTAB]."""

from __future__ import annotations

import sys

from odradek import Consumer, Producer

servers, topic, *key = sys.argv[1:]
options = f'useKeyTab=true principal="{key[0]}" keyTab="{key[1]}"' if key else "useTicketCache=true"
login = {
    "bootstrap.servers": servers,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};",
}
with Producer(login) as producer:
    producer.send(topic, value=b"hello").result(30)
with Consumer(login, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
    print(next(iter(consumer)).value.decode())
