package serviceaccount

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// key is the hash of a token: memory holds no token itself.
type key = [sha256.Size]byte

// answer is what kube-apiserver said of a token, and until when that counts.
type answer struct {
	user  user.Info
	err   error
	until time.Time
}

// answers remember in bounded memory. The good ones are kept apart from the others, so that no number of bad tokens makes a
// good one asked about again.
type answers struct {
	mu        sync.Mutex
	good, bad generations
}

// generations are two of which the old one is dropped when the young one is full.
type generations struct {
	young, old map[key]answer
}

func newAnswers() *answers {
	return &answers{good: generations{young: map[key]answer{}}, bad: generations{young: map[key]answer{}}}
}

// get returns the remembered answer, if it still counts.
func (a *answers) get(k key, now time.Time) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.good.get(k)
	if !ok || !now.Before(got.until) {
		got, ok = a.bad.get(k)
	}
	return got, ok && now.Before(got.until)
}

func (a *answers) put(k key, got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got.err == nil {
		a.good.put(k, got)
		return
	}
	a.bad.put(k, got)
}

func (g *generations) get(k key) (answer, bool) {
	if got, ok := g.young[k]; ok {
		return got, true
	}
	got, ok := g.old[k]
	return got, ok
}

func (g *generations) put(k key, got answer) {
	if _, known := g.young[k]; !known && len(g.young) >= remembered/2 {
		g.old, g.young = g.young, map[key]answer{}
	}
	delete(g.old, k)
	g.young[k] = got
}
