package lookup

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// maxSecrets bounds the answers whose texts are noted, in bytes: more than kube-apiserver gives of one Secret.
	maxSecrets = 8 << 20
	// leastSecret is how long a text of a Secret has to be to be taken for one, and not for a word.
	leastSecret = 6
	// typeOfRelease is the type of the Secrets that have records of releases: what they say is packed.
	typeOfRelease = "helm.sh/release.v1"
)

// Hide returns a transport that gives hide what nothing may say any more of the Secrets that pass: templates may print what they read. The
// words of known are not hidden.
func Hide(next http.RoundTripper, hide func(func(*helm.Hidden)), known ...string) http.RoundTripper {
	return hiding{next, hide, known}
}

type hiding struct {
	next  http.RoundTripper
	hide  func(func(*helm.Hidden))
	known []string
}

var errManySecrets = errors.New("the Secrets are larger together than a chart may read at once")

// RoundTrip implements http.RoundTripper.
func (s hiding) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	if is, ok := lookupOf(r.URL.Path); !ok || is.Group != "" || is.Resource != "secrets" {
		return answer, nil
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxSecrets+1))
	_ = answer.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxSecrets:
		return nil, errManySecrets
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	type secret struct {
		Type string            `json:"type"`
		Data map[string][]byte `json:"data"`
	}
	var found struct {
		secret
		Items []secret `json:"items"`
	}
	if json.Unmarshal(raw, &found) != nil {
		return nil, errors.New("an answer with Secrets can't be read") // so that nothing of it is used
	}
	s.hide(func(h *helm.Hidden) {
		for _, one := range append(found.Items, found.secret) {
			if one.Type == typeOfRelease {
				continue
			}
			for _, value := range one.Data {
				h.AddSecret(string(value), leastSecret, s.known...)
			}
		}
	})
	return answer, nil
}
