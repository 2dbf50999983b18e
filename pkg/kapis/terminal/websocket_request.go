package terminal

import (
	"encoding/base64"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// checkUpgrade refuses a request that is no WebSocket's. Consoles ask so first, to learn whether they may open a terminal and whether the
// address is known: the answer must not be 404.
func checkUpgrade(r *http.Request) error {
	if !request.IsUpgrade(r.Header) || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return status.BadRequestf("a terminal is a WebSocket: send the headers Connection: Upgrade and Upgrade: websocket (RFC 6455, 4.1)")
	}
	keys := r.Header.Values("Sec-Websocket-Key")
	if len(keys) != 1 || r.Header.Get("Sec-Websocket-Version") != "13" {
		return status.BadRequestf("a terminal is a WebSocket of the version 13: send it as Sec-WebSocket-Version, and one Sec-WebSocket-Key" +
			" (RFC 6455, 4.1)")
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err != nil || len(raw) != 16 {
		return status.BadRequestf("the header Sec-WebSocket-Key has to be 16 bytes in base64 (RFC 6455, 4.1)")
	}
	return nil
}
