package factor

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// challenge is the state of an enrolment or a login between its two steps. The browser carries it, sealed.
type challenge struct {
	At      time.Time             `json:"a"`
	Secret  string                `json:"s,omitempty"`
	Session *webauthn.SessionData `json:"w,omitempty"`
}

func (f *Store) seal(p token.Purpose, b challenge) (string, error) {
	if f.Keys == nil {
		return "", fmt.Errorf("begin with a second factor: %w", iam.ErrUnavailable)
	}
	b.At = f.Now().Truncate(time.Microsecond)
	raw, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("begin with a second factor: %w", err)
	}
	return f.Keys.KeySet().Seal(p, raw, f.Now())
}

// open returns a sealed challenge. Its error is ErrCredentials.
func (f *Store) open(p token.Purpose, sealed string) (*challenge, error) {
	if f.Keys == nil {
		return nil, iam.ErrCredentials
	}
	raw, err := f.Keys.KeySet().Open(p, sealed, f.Now())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	b := &challenge{}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	if age := f.Now().Sub(b.At); age < -time.Minute || age > beginLife {
		return nil, fmt.Errorf("%w: it took too long", iam.ErrCredentials)
	}
	return b, nil
}
