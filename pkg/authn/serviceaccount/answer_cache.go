package serviceaccount

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/recent"
)

// key is the hash of a token: no token itself is stored in memory.
type key = [sha256.Size]byte

// answer is kube-apiserver's answer about a token, and until when it counts.
type answer struct {
	user  user.Info
	err   error
	until time.Time
}

// answers caches answers in bounded memory. Good ones are stored apart from the others, so that no number of bad tokens makes a good one
// be reviewed again.
type answers struct {
	mu        sync.Mutex
	good, bad *recent.Map[key, answer]
}

func newAnswers() *answers {
	return &answers{good: recent.NewMap[key, answer](maxAnswers), bad: recent.NewMap[key, answer](maxAnswers)}
}

// get returns the cached answer, if it still counts.
func (a *answers) get(k key, now time.Time) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.good.Get(k)
	if !ok || !now.Before(got.until) {
		got, ok = a.bad.Get(k)
	}
	return got, ok && now.Before(got.until)
}

func (a *answers) put(k key, got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got.err == nil {
		a.good.Set(k, got)
		return
	}
	a.bad.Set(k, got)
}
