package token

import (
	"encoding/json"
	"fmt"
	"time"
)

// Sealer seals values as text that only servers with the same keys can open, so that the server need not store them.
type Sealer struct {
	Keys KeySource
	Now  func() time.Time
}

// Seal returns a value as sealed JSON. A value that is sealed for one purpose is not opened for another.
func (s Sealer) Seal(p Purpose, v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal a value: %w", err)
	}
	return s.Keys.KeySet().Seal(p, b, s.Now())
}

// Open decodes into v a value that Seal returned for the same purpose.
func (s Sealer) Open(p Purpose, sealed string, v any) error {
	b, err := s.Keys.KeySet().Open(p, sealed, s.Now())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrSealed, err)
	}
	return nil
}
