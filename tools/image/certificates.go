package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates returns the CAs that Mozilla trusts, as PEM. A CA that is trusted only for certificates from before some day is left
// out, since a file of certificates can't express that.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			panic(err) // writes to a buffer never fail
		}
	}
	return text.Bytes()
}
