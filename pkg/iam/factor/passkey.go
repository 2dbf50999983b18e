package factor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// ErrNoPasskeys says that passkeys can't be used: the issuer's address is not https with a host name, or the user has none.
var ErrNoPasskeys = errors.New("passkeys can't be used here")

const (
	// maxPasskeys and maxPasskeyName bound a user's passkeys, as the CRD does.
	maxPasskeys    = 16
	maxPasskeyName = 64
	// maxResponse is the size limit of a browser's answer, in bytes.
	maxResponse = 64 << 10
	// loginPurpose is the purpose that seals a login by passkey between BeginLogin and FinishLogin.
	loginPurpose token.Purpose = "second factor passkey login"
)

func addPurpose(uid string) token.Purpose { return token.Purpose("second factor passkey " + uid) }

// NewPasskeys returns the verifier of passkeys for the pages of an issuer; nil if browsers would not allow any there.
func NewPasskeys(issuer, name string) (*webauthn.WebAuthn, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, fmt.Errorf("use passkeys: %w", err)
	}
	host := u.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if net.ParseIP(host) != nil || u.Scheme != "https" && !local {
		return nil, nil
	}
	w, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: name, RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("use passkeys: %w", err)
	}
	return w, nil
}

// webauthnUser is a user in the form of the webauthn library.
type webauthnUser struct {
	*iam.User
	credentials []webauthn.Credential
}

// WebAuthnID returns the UID, so that a recreated user is another one.
func (h webauthnUser) WebAuthnID() []byte { return []byte(h.UID) }

// WebAuthnName returns the user's name.
func (h webauthnUser) WebAuthnName() string { return h.Name }

// WebAuthnDisplayName returns the name that pages show.
func (h webauthnUser) WebAuthnDisplayName() string {
	if h.DisplayName != "" {
		return h.DisplayName
	}
	return h.Name
}

// WebAuthnCredentials returns the user's passkeys.
func (h webauthnUser) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

func (f *Store) webauthnUser(u *iam.User) webauthnUser {
	h := webauthnUser{User: u}
	if o := f.stored(u.UID); o != nil {
		for _, p := range o.Spec.Passkeys {
			var c webauthn.Credential
			if json.Unmarshal([]byte(p.Credential), &c) == nil {
				h.credentials = append(h.credentials, c)
			}
		}
	}
	return h
}

// BeginPasskey returns the options for navigator.credentials.create as JSON, and what AddPasskey needs, sealed.
func (f *Store) BeginPasskey(u *iam.User) (options []byte, sealed string, err error) {
	if f.Passkeys == nil {
		return nil, "", ErrNoPasskeys
	}
	h := f.webauthnUser(u)
	creation, session, err := f.Passkeys.BeginRegistration(h,
		webauthn.WithExclusions(webauthn.Credentials(h.credentials).CredentialDescriptors()))
	if err != nil {
		return nil, "", fmt.Errorf("begin to add a passkey: %w", err)
	}
	return f.begin(addPurpose(u.UID), creation, session)
}

func (f *Store) begin(p token.Purpose, options any, session *webauthn.SessionData) ([]byte, string, error) {
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, "", fmt.Errorf("begin with a passkey: %w", err)
	}
	sealed, err := f.seal(p, challenge{Session: session})
	if err != nil {
		return nil, "", err
	}
	return raw, sealed, nil
}

// AddPasskey stores the credential that the browser answered with. Its errors are ErrCredentials, ErrTooMany, ErrNoPasskeys and
// ErrUnavailable.
func (f *Store) AddPasskey(ctx context.Context, u *iam.User, sealed, name string, response []byte) error {
	if f.Passkeys == nil {
		return ErrNoPasskeys
	}
	b, err := f.open(addPurpose(u.UID), sealed)
	if err != nil || b.Session == nil || len(response) > maxResponse {
		return errors.Join(iam.ErrCredentials, err)
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	c, err := f.Passkeys.CreateCredential(f.webauthnUser(u), *b.Session, parsed)
	if err != nil {
		return fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	c.Attestation = webauthn.CredentialAttestation{} // it is never read again
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("store a passkey: %w", err)
	}
	id := passkeyID(c.ID)
	return f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error {
		switch {
		case slices.ContainsFunc(s.Passkeys, func(p v1alpha1.Passkey) bool { return p.ID == id }):
			return fmt.Errorf("%w: the passkey is there already", iam.ErrCredentials)
		case len(s.Passkeys) >= maxPasskeys:
			return fmt.Errorf("%w: %d passkeys", iam.ErrTooMany, maxPasskeys)
		}
		s.Passkeys = append(s.Passkeys, v1alpha1.Passkey{ID: id, Name: cutName(name), Credential: string(raw),
			CreatedAt: metav1.NewTime(f.Now())})
		return nil
	})
}

// RemovePasskey deletes a passkey.
func (f *Store) RemovePasskey(ctx context.Context, u *iam.User, id string) error {
	return f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error {
		i := slices.IndexFunc(s.Passkeys, func(p v1alpha1.Passkey) bool { return p.ID == id })
		if i < 0 {
			return errGone
		}
		if s.Passkeys = slices.Delete(s.Passkeys, i, i+1); len(s.Passkeys) == 0 && s.TOTP == nil {
			s.Recovery = nil
		}
		return nil
	})
}

// BeginLogin returns the options for navigator.credentials.get as JSON, and what FinishLogin needs, sealed. A nil user begins a
// login by a discoverable credential, which names the user.
func (f *Store) BeginLogin(u *iam.User) (options []byte, sealed string, err error) {
	if f.Passkeys == nil {
		return nil, "", ErrNoPasskeys
	}
	var assertion *protocol.CredentialAssertion
	var session *webauthn.SessionData
	if u == nil {
		assertion, session, err = f.Passkeys.BeginDiscoverableLogin()
	} else {
		h := f.webauthnUser(u)
		if len(h.credentials) == 0 {
			return nil, "", ErrNoPasskeys
		}
		assertion, session, err = f.Passkeys.BeginLogin(h)
	}
	if err != nil {
		return nil, "", fmt.Errorf("begin a login by passkey: %w", err)
	}
	return f.begin(loginPurpose, assertion, session)
}

// FinishLogin returns the user whose passkey answered, and accepts each answer once. Its errors are ErrCredentials, ErrNoPasskeys and
// ErrUnavailable.
func (f *Store) FinishLogin(ctx context.Context, sealed string, response []byte) (*iam.User, error) {
	if f.Passkeys == nil {
		return nil, ErrNoPasskeys
	}
	b, err := f.open(loginPurpose, sealed)
	if err != nil || b.Session == nil || len(response) > maxResponse {
		return nil, errors.Join(iam.ErrCredentials, err)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	u, c, err := f.check(b.Session, parsed)
	if err != nil {
		if unknown := f.complete(); unknown != nil { // the passkey, or its user, may only not be known here
			return nil, unknown
		}
		return nil, fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	copied := false
	err = f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) (err error) {
		copied, err = f.usePasskey(s, c, b.At)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case copied:
		return nil, errCopied
	}
	return u, nil
}

// complete returns an ErrUnavailable while factors or users may exist that are not known here.
func (f *Store) complete() error {
	if f.Known != nil {
		if err := f.Known(); err != nil {
			return fmt.Errorf("%w: not all second factors are known: %w", iam.ErrUnavailable, err)
		}
	}
	return f.Users.Complete()
}

// check verifies an answer with the stored credential.
func (f *Store) check(session *webauthn.SessionData, parsed *protocol.ParsedCredentialAssertionData) (*iam.User,
	*webauthn.Credential, error) {
	if len(session.UserID) > 0 {
		u := f.userOf(session.UserID)
		if u == nil {
			return nil, nil, errors.New("the user is gone")
		}
		c, err := f.Passkeys.ValidateLogin(f.webauthnUser(u), *session, parsed)
		return u, c, err
	}
	found, c, err := f.Passkeys.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
		u := f.userOf(handle)
		if u == nil {
			return nil, errors.New("no user has it")
		}
		return f.webauthnUser(u), nil
	}, *session, parsed)
	if err != nil {
		return nil, nil, err
	}
	return found.(webauthnUser).User, c, nil
}

// userOf returns the user of a UID who has factors, or nil.
func (f *Store) userOf(uid []byte) *iam.User {
	o := f.stored(string(uid))
	if o == nil {
		return nil
	}
	u := f.Users.ByName(o.Spec.User)
	if u == nil || u.UID != string(uid) || u.Deleting {
		return nil
	}
	return u
}

// errCopied refuses a passkey whose counter once did not grow.
var errCopied = fmt.Errorf("%w: there may be a copy of the passkey", iam.ErrCredentials)

// usePasskey uses up an answer. If the counter did not grow, there may be a copy of the authenticator (WebAuthn, 6.1.1): that is stored,
// and the passkey is refused from then on. The same answer sent twice does not indicate a copy.
func (f *Store) usePasskey(s *v1alpha1.FactorSpec, answered *webauthn.Credential, challenge time.Time) (copied bool, err error) {
	id := passkeyID(answered.ID)
	i := slices.IndexFunc(s.Passkeys, func(p v1alpha1.Passkey) bool { return p.ID == id })
	if i < 0 {
		return false, errGone
	}
	p := &s.Passkeys[i]
	var kept webauthn.Credential
	if err := json.Unmarshal([]byte(p.Credential), &kept); err != nil {
		return false, fmt.Errorf("%w: the passkey that is stored can't be read", iam.ErrCredentials)
	}
	if kept.Authenticator.CloneWarning {
		return false, errCopied
	}
	if !challenge.After(p.LastChallenge.Time) {
		return false, fmt.Errorf("%w: the answer, or a later one, was used already", iam.ErrCredentials)
	}
	if kept.Authenticator.UpdateCounter(answered.Authenticator.SignCount); kept.Authenticator.CloneWarning {
		klog.InfoS("A passkey is refused from now on: its counter did not grow, so there may be a copy of it", "user", s.User, "passkey", p.Name)
	} else {
		kept.Flags, p.UsedAt = answered.Flags, metav1.NewTime(f.Now())
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return false, fmt.Errorf("store a passkey: %w", err)
	}
	p.Credential, p.LastChallenge = string(raw), metav1.NewMicroTime(challenge)
	return kept.Authenticator.CloneWarning, nil
}

func passkeyID(id []byte) string { return base64.RawURLEncoding.EncodeToString(id) }

// cutName shortens the name of a passkey.
func cutName(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, ""))
	for utf8.RuneCountInString(s) > maxPasskeyName {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
