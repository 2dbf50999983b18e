package iam

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// device is an authenticator with one passkey (WebAuthn Level 3, 6), as a browser at an origin uses it.
type device struct {
	key    *ecdsa.PrivateKey
	id     []byte
	user   []byte
	origin string
	rp     string
	flags  byte
	count  uint32
}

func newDevice(t testing.TB) *device {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{key: key, id: make([]byte, 16), origin: "https://ks.example", rp: "ks.example", flags: 0x01 | 0x04}
	_, _ = rand.Read(d.id)
	return d
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// byteString is one of CBOR, of less than 64 KiB.
func byteString(b []byte) []byte {
	if len(b) < 256 {
		return append([]byte{0x58, byte(len(b))}, b...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{0x59}, uint16(len(b))), b...)
}

func (d *device) authData(attested bool) []byte {
	rp := sha256.Sum256([]byte(d.rp))
	flags := d.flags
	if attested {
		flags |= 0x40
	}
	out := binary.BigEndian.AppendUint32(append(rp[:], flags), d.count)
	if !attested {
		return out
	}
	out = append(out, make([]byte, 16)...) // AAGUID
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(d.id))), d.id...)
	point, err := d.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err)
	}
	out = append(out, 0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21) // EC2, ES256, P-256, x
	out = append(out, byteString(point[1:33])...)
	return append(append(out, 0x22), byteString(point[33:])...)
}

func (d *device) clientData(kind, challenge string) []byte {
	raw, _ := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": d.origin, "crossOrigin": false})
	return raw
}

// create is navigator.credentials.create.
func (d *device) create(t testing.TB, options []byte) []byte {
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
	d.user, _ = base64.RawURLEncoding.DecodeString(o.PublicKey.User.ID)
	object := append([]byte{0xa3}, "\x63fmt\x64none\x67attStmt\xa0\x68authData"...)
	object = append(object, byteString(d.authData(true))...)
	raw, _ := json.Marshal(map[string]any{
		"id": b64(d.id), "rawId": b64(d.id), "type": "public-key",
		"response": map[string]any{"clientDataJSON": b64(d.clientData("webauthn.create", o.PublicKey.Challenge)), "attestationObject": b64(object)},
	})
	return raw
}

// get is navigator.credentials.get.
func (d *device) get(t testing.TB, options []byte) []byte {
	t.Helper()
	var o struct{ PublicKey struct{ Challenge string } }
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	auth, client := d.authData(false), d.clientData("webauthn.get", o.PublicKey.Challenge)
	clientHash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, auth...), clientHash[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, d.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(map[string]any{
		"id": b64(d.id), "rawId": b64(d.id), "type": "public-key",
		"response": map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(auth), "signature": b64(sig), "userHandle": b64(d.user)},
	})
	return raw
}

// addTo registers the device as alice's.
func (d *device) addTo(t testing.TB, s *safe) error {
	t.Helper()
	options, sealed, err := s.all[0].BeginPasskey(s.alice())
	want(t, err, nil)
	return s.all[1].AddPasskey(t.Context(), s.alice(), sealed, " phone ", d.create(t, options))
}

func TestAPasskeyLogsInOnEveryReplica(t *testing.T) {
	s, d := newSafe(t), newDevice(t)
	want(t, d.addTo(t, s), nil)
	if e := s.all[0].Of(s.alice()); len(e.Passkeys) != 1 || e.Passkeys[0].Name != "phone" || !e.Any() || e.Passkeys[0].ID != b64(d.id) {
		t.Fatalf("%+v", e)
	}
	want(t, d.addTo(t, s), ErrCredentials) // it is there
	for i, who := range []*User{nil, s.alice(), nil} {
		s.clock.add(time.Second)
		options, sealed, err := s.all[i%2].BeginLogin(who)
		want(t, err, nil)
		if who == nil && strings.Contains(string(options), b64(d.id)) {
			t.Error("the options tell a stranger of a passkey")
		}
		u, err := s.all[1-i%2].FinishLogin(t.Context(), sealed, d.get(t, options))
		if err != nil || u != s.alice() {
			t.Fatalf("%v, %v", u, err)
		}
	}
	if used := s.all[0].Of(s.alice()).Passkeys[0].Used; !used.Equal(s.clock.now()) {
		t.Errorf("used at %v", used)
	}
	_, _, err := s.all[0].BeginLogin(s.users.ByName("bob"))
	want(t, err, ErrNoPasskeys)
	want(t, s.all[0].RemovePasskey(t.Context(), s.alice(), "none"), ErrCredentials)
	want(t, s.all[0].RemovePasskey(t.Context(), s.alice(), b64(d.id)), nil)
	if s.api.size() != 0 {
		t.Error("something is left")
	}
}

func TestWhatIsRefusedOfAPasskey(t *testing.T) {
	for name, change := range map[string]func(*safe, *device){
		"AnotherOrigin":     func(_ *safe, d *device) { d.origin = "https://ks.example.evil.example" },
		"AnotherSite":       func(_ *safe, d *device) { d.rp = "evil.example" },
		"NobodyVerified":    func(_ *safe, d *device) { d.flags = 0x01 },
		"NobodyPresent":     func(_ *safe, d *device) { d.flags = 0x04 },
		"AnotherKey":        func(_ *safe, d *device) { d.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"AnotherUser":       func(_ *safe, d *device) { d.user = []byte("uid-bob") },
		"TooLate":           func(s *safe, _ *device) { s.clock.add(beginLife + time.Second) },
		"UserMadeAnew":      func(s *safe, _ *device) { s.users.Set(userObject("alice", withUID("another"))) },
		"UserGone":          func(s *safe, _ *device) { s.users.Delete("", "alice") },
		"CounterWentBack":   func(_ *safe, d *device) { d.count = 3 },
		"CounterStayed":     func(_ *safe, d *device) { d.count = 7 },
		"NotThatPasskey":    func(_ *safe, d *device) { d.id = []byte("another passkey.") },
		"BackupEligibleNow": func(_ *safe, d *device) { d.flags |= 0x08 },
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newSafe(t), newDevice(t)
			d.count = 7
			want(t, d.addTo(t, s), nil)
			for _, who := range []*User{nil, s.alice()} {
				s.clock.add(time.Second)
				options, sealed, err := s.all[0].BeginLogin(who)
				want(t, err, nil)
				bad := *d
				bad.count++
				change(s, &bad)
				if u, err := s.all[0].FinishLogin(t.Context(), sealed, bad.get(t, options)); err == nil {
					t.Errorf("logged in as %v", u)
				}
				if s.alice() == nil || s.alice().UID != "uid-alice" {
					return
				}
			}
		})
	}
}

func TestAnAnswerIsGoodOnce(t *testing.T) {
	s, d := newSafe(t), newDevice(t)
	want(t, d.addTo(t, s), nil)
	options, sealed, err := s.all[0].BeginLogin(nil)
	want(t, err, nil)
	answer := d.get(t, options)
	_, err = s.all[0].FinishLogin(t.Context(), sealed, answer)
	want(t, err, nil)
	for i := range s.all {
		_, err = s.all[i].FinishLogin(t.Context(), sealed, answer)
		want(t, err, ErrCredentials)
	}
}

func TestPasskeysNeedAHostAndTLS(t *testing.T) {
	for issuer, good := range map[string]bool{
		"https://ks.example": true, "https://ks.example:30880/base": true, "http://localhost:9090": true,
		"http://ks.example": false, "https://192.0.2.1": false, "https://[::1]": false,
	} {
		w, err := NewPasskeys(issuer, "KubeSphere")
		if err != nil || (w != nil) != good {
			t.Errorf("%s: %v, %v", issuer, w != nil, err)
		}
	}
	s := newSafe(t)
	s.all[0].Passkeys = nil
	_, _, err := s.all[0].BeginPasskey(s.alice())
	want(t, err, ErrNoPasskeys)
	_, err = s.all[0].FinishLogin(t.Context(), "", nil)
	want(t, err, ErrNoPasskeys)
	want(t, s.all[0].AddPasskey(t.Context(), s.alice(), "", "", nil), ErrNoPasskeys)
}

func TestAPasskeyIsASecondFactorOrALoginOfItsOwn(t *testing.T) {
	s, d := newSafe(t), newDevice(t)
	e, doors := s.guard(t, FactorOptional)
	want(t, d.addTo(t, s), nil)
	at := Origin{Source: home}
	p, err := e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	doors.clock.add(time.Second)
	options, sealed, err := s.all[0].BeginLogin(p.User)
	want(t, err, nil)
	want(t, e.Passkey(t.Context(), p, sealed, []byte("{}"), at), ErrCredentials)
	want(t, e.Passkey(t.Context(), p, sealed, d.get(t, options), at), nil)
	if p.Pending || strings.Join(p.Methods, " ") != "pwd hwk mfa" {
		t.Errorf("%+v", p)
	}
	doors.clock.add(time.Second)
	options, sealed, err = s.all[0].BeginLogin(nil)
	want(t, err, nil)
	alone, err := e.PasskeyLogin(t.Context(), sealed, d.get(t, options), at)
	if err != nil || alone.Pending || alone.User.Name != "alice" {
		t.Errorf("%+v, %v", alone, err)
	}
}

func TestNamesOfPasskeysAreCut(t *testing.T) {
	for _, name := range [][2]string{{" phone ", "phone"}, {strings.Repeat("é", 100), strings.Repeat("é", 64)}, {"a\xffb", "ab"}} {
		if got := cutName(name[0]); got != name[1] {
			t.Errorf("%q became %q", name[0], got)
		}
	}
	s := newSafe(t)
	for i := range maxPasskeys + 1 {
		d := newDevice(t)
		err := d.addTo(t, s)
		if i < maxPasskeys {
			want(t, err, nil)
		} else {
			want(t, err, ErrTooMany)
		}
	}
	if raw := fmt.Sprint(s.api.stored); strings.Contains(raw, "clientDataJSON\\\":\\\"ey") {
		t.Error("what was attested is kept")
	}
}

// A counter that does not grow says that there are two authenticators with one key (WebAuthn, 6.1.1): neither gets in again, also not once it
// has counted beyond the other.
func TestACopiedPasskeyIsRefusedFromThenOn(t *testing.T) {
	s, d := newSafe(t), newDevice(t)
	d.count = 7
	want(t, d.addTo(t, s), nil)
	logIn := func(i int, count uint32) error {
		s.clock.add(time.Second)
		options, sealed, err := s.all[i].BeginLogin(nil)
		want(t, err, nil)
		d.count = count
		_, err = s.all[i].FinishLogin(t.Context(), sealed, d.get(t, options))
		return err
	}
	want(t, logIn(0, 9), nil)
	want(t, logIn(0, 8), ErrCredentials) // the copy, or the owner after the copy
	for _, count := range []uint32{10, 11, 1000} {
		for i := range s.all {
			want(t, logIn(i, count+uint32(i)), ErrCredentials)
		}
	}
	if used := s.all[0].Of(s.alice()).Passkeys[0].Used; !used.Before(s.clock.now().Add(-time.Second)) {
		t.Errorf("it was used at %v", used)
	}
	want(t, s.all[0].RemovePasskey(t.Context(), s.alice(), b64(d.id)), nil)
	d.count = 0
	want(t, d.addTo(t, s), nil)
	want(t, logIn(0, 1001), nil)
}

// An answer that is sent twice, as by a slow form, does not take the passkey away.
func TestAnAnswerSentTwiceIsNoCopy(t *testing.T) {
	s, d := newSafe(t), newDevice(t)
	d.count = 7
	want(t, d.addTo(t, s), nil)
	for d.count = 8; d.count < 10; d.count++ {
		s.clock.add(time.Second)
		options, sealed, err := s.all[0].BeginLogin(nil)
		want(t, err, nil)
		answer := d.get(t, options)
		_, err = s.all[0].FinishLogin(t.Context(), sealed, answer)
		want(t, err, nil)
		_, err = s.all[0].FinishLogin(t.Context(), sealed, answer)
		want(t, err, ErrCredentials)
	}
}
