package filter

import (
	"encoding/base64"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
)

const (
	// tokenProtocol begins the sub-protocol by which a browser's WebSocket, that can't have an Authorization header, sends a bearer
	// token, in base64url without padding, to Kubernetes (k8s.io/apiserver/pkg/authentication/request/websocket).
	tokenProtocol  = "base64url.bearer.authorization.k8s.io."
	headerProtocol = "Sec-Websocket-Protocol"
)

// takeProtocolToken turns the token among the sub-protocols of a WebSocket into an Authorization header, so that it is verified, stored and
// removed as any other, and leaves the other sub-protocols: one of them is needed, since a browser wants one in the answer.
func takeProtocolToken(h http.Header) error {
	var token string
	var others []string
	for _, line := range h[headerProtocol] {
		for protocol := range strings.SplitSeq(line, ",") {
			protocol = strings.TrimSpace(protocol)
			encoded, is := strings.CutPrefix(protocol, tokenProtocol)
			switch raw, err := base64.RawURLEncoding.DecodeString(encoded); {
			case !is:
				others = append(others, protocol)
			case token != "":
				return errors.NewBadRequest("there are several bearer tokens among the sub-protocols")
			case err != nil || len(raw) == 0:
				return errors.NewBadRequest("the bearer token among the sub-protocols is not base64url without padding (RFC 4648, 5)")
			default:
				token = string(raw)
			}
		}
	}
	switch {
	case token == "":
		return nil
	case len(h["Authorization"]) > 0:
		return errors.NewBadRequest("there is a bearer token among the sub-protocols besides the Authorization header: send one of them")
	case len(others) == 0:
		return errors.NewBadRequest("the bearer token is the only sub-protocol: name the one to speak too, such as v5.channel.k8s.io")
	}
	h[headerProtocol] = []string{strings.Join(others, ", ")}
	h["Authorization"] = []string{"Bearer " + token}
	return nil
}
