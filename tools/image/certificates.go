package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates returns the authorities that Mozilla trusts as PEM. An authority that is only trusted for certificates from before some
// day is left out, since a file of certificates can't say so.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			panic(err) // a buffer takes everything
		}
	}
	return text.Bytes()
}
