"""An access token as clients of Kafka get one: out of a file, or from an endpoint by client credentials.

Source: RFC 6749 (4.4); Kafka's FileJwtRetriever and ClientCredentialsJwtRetriever; settings under the library's names.
"""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from pipeline.client_security import TOKEN_URL
from pipeline.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def access_token(settings: Mapping[str, str], *, timeout_s: float) -> str:
    """The token that these settings lead to. Raises: DataError, UsageError; neither says a secret."""
    url = settings.get(TOKEN_URL, "")
    if url.startswith("file:"):
        return _of_file(url)
    if not url:
        raise UsageError(f"OAUTHBEARER needs {TOKEN_URL}")
    pair = ":".join(settings.get(f"sasl.oauthbearer.client.{name}", "") for name in ("id", "secret"))
    body = {"grant_type": "client_credentials"}
    if "sasl.oauthbearer.scope" in settings:
        body["scope"] = settings["sasl.oauthbearer.scope"]
    headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    try:
        request = Request(url, urlencode(body).encode(), headers)
        trusted = settings.get("https.ca.location"), settings.get("https.ca.pem") or None
        context = ssl.create_default_context(cafile=trusted[0], cadata=trusted[1])
        with urlopen(request, timeout=timeout_s, context=context) as answer:
            return str(json.load(answer)["access_token"])
    except (URLError, TimeoutError, OSError) as error:
        raise DataError(f"{url} gives no token: {getattr(error, 'reason', error)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{url} gives no token: its answer is none of a token endpoint") from error


def _of_file(url: str) -> str:
    try:
        token = Path(url.removeprefix("file:").replace("//", "/", 1)).read_text(encoding="ascii").strip()
    except OSError as error:
        raise DataError(f"{url}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise DataError(f"{url}: it holds no token")
    return token
