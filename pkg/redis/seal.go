package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/token"
)

// errUnsealed is the error for a session that anyone may have written.
var errUnsealed = errors.New("it is not sealed: an older version or another program wrote it; cache.options.acceptUnsealedUntil lets" +
	" those of an older version in for a time")

// purpose binds a sealed value to the name of its session, so that it can't be used for another one.
func purpose(name string) token.Purpose { return token.Purpose("session in Redis " + name) }

// seal returns the stored form of a session.
func (s *Sessions) seal(o *v1alpha1.Session) (string, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("write session: %w", err)
	}
	sealed, err := s.keys.KeySet().Seal(purpose(o.Name), raw, time.Now())
	if err != nil {
		return "", fmt.Errorf("write session: %w", err)
	}
	return sealed, nil
}

// open returns the session for a stored value, with its name and version.
func (s *Sessions) open(name, stored string, version int64) (*v1alpha1.Session, error) {
	now := time.Now()
	var raw []byte
	if len(stored) > 0 && stored[0] == '{' { // sealed values never begin like this
		if !now.Before(s.acceptUnsealed) {
			return nil, fmt.Errorf("read session: %w", errUnsealed)
		}
		raw = []byte(stored)
	} else {
		var err error
		if raw, _, err = s.keys.KeySet().OpenStored(purpose(name), stored, now); err != nil {
			return nil, fmt.Errorf("read session: %w", err)
		}
	}
	o := &v1alpha1.Session{}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	if o.Name != name {
		return nil, errors.New("read session: it has another name")
	}
	return stamp(o, version), nil
}

// stamp sets the metadata that the Kubernetes API would set.
func stamp(o *v1alpha1.Session, version int64) *v1alpha1.Session {
	o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Session"}
	o.ResourceVersion, o.Generation = strconv.FormatInt(version, 10), version
	return o
}
