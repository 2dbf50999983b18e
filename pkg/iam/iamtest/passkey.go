package iamtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"
)

// Device is an authenticator with one passkey (WebAuthn Level 3, 6), as a browser at an origin uses it.
type Device struct {
	Key    *ecdsa.PrivateKey
	ID     []byte
	User   []byte
	Origin string
	RP     string
	Flags  byte
	Count  uint32
}

// NewDevice returns a device with a new passkey.
func NewDevice(t testing.TB) *Device {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d := &Device{Key: key, ID: make([]byte, 16), Origin: "https://ks.example", RP: "ks.example", Flags: 0x01 | 0x04}
	_, _ = rand.Read(d.ID)
	return d
}

// Base64 encodes as WebAuthn does.
func Base64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// byteString encodes a CBOR byte string of less than 64 KiB.
func byteString(b []byte) []byte {
	if len(b) < 256 {
		return append([]byte{0x58, byte(len(b))}, b...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{0x59}, uint16(len(b))), b...)
}

func (d *Device) authData(attested bool) []byte {
	rp := sha256.Sum256([]byte(d.RP))
	flags := d.Flags
	if attested {
		flags |= 0x40
	}
	out := binary.BigEndian.AppendUint32(append(rp[:], flags), d.Count)
	if !attested {
		return out
	}
	out = append(out, make([]byte, 16)...) // AAGUID
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(d.ID))), d.ID...)
	point, err := d.Key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err)
	}
	out = append(out, 0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21) // EC2, ES256, P-256, x
	out = append(out, byteString(point[1:33])...)
	return append(append(out, 0x22), byteString(point[33:])...)
}

func (d *Device) clientData(kind, challenge string) []byte {
	raw, _ := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": d.Origin, "crossOrigin": false})
	return raw
}

// Create does what navigator.credentials.create does.
func (d *Device) Create(t testing.TB, options []byte) []byte {
	t.Helper()
	var o struct {
		PublicKey struct {
			Challenge string
			User      struct{ ID string }
		}
	}
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	d.User, _ = base64.RawURLEncoding.DecodeString(o.PublicKey.User.ID)
	object := append([]byte{0xa3}, "\x63fmt\x64none\x67attStmt\xa0\x68authData"...)
	object = append(object, byteString(d.authData(true))...)
	raw, _ := json.Marshal(map[string]any{
		"id": Base64(d.ID), "rawId": Base64(d.ID), "type": "public-key",
		"response": map[string]any{"clientDataJSON": Base64(d.clientData("webauthn.create", o.PublicKey.Challenge)),
			"attestationObject": Base64(object)},
	})
	return raw
}

// Get does what navigator.credentials.get does.
func (d *Device) Get(t testing.TB, options []byte) []byte {
	t.Helper()
	var o struct{ PublicKey struct{ Challenge string } }
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	auth, client := d.authData(false), d.clientData("webauthn.get", o.PublicKey.Challenge)
	clientHash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, auth...), clientHash[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, d.Key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(map[string]any{
		"id": Base64(d.ID), "rawId": Base64(d.ID), "type": "public-key",
		"response": map[string]any{"clientDataJSON": Base64(client), "authenticatorData": Base64(auth), "signature": Base64(sig),
			"userHandle": Base64(d.User)},
	})
	return raw
}
