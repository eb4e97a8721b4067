"""Serves a real Kinto with the memory backend on a port the system picks, and prints that port once it listens."""

import kinto
import waitress

SETTINGS = {
    "kinto.includes": "kinto.plugins.accounts",
    "kinto.storage_backend": "kinto.core.storage.memory",
    "kinto.cache_backend": "kinto.core.cache.memory",
    "kinto.permission_backend": "kinto.core.permission.memory",
    "kinto.userid_hmac_secret": "not a secret",
    "multiauth.policies": "account",
    "multiauth.policy.account.use": "kinto.plugins.accounts.AccountsPolicy",
    "kinto.account_create_principals": "system.Everyone",
    "kinto.bucket_create_principals": "system.Authenticated",
}

if __name__ == "__main__":
    server = waitress.create_server(kinto.main({}, **SETTINGS), host="127.0.0.1", port=0, threads=4)
    print(server.effective_port, flush=True)
    server.run()
