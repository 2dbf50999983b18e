package agent

import (
	"errors"
	"net/http"
	"strconv"
	"sync"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// errMet says that this cluster is linked to the replica of the hub already, and that there are others.
var errMet = errors.New("this cluster is linked to the replica already")

// replicas are those of the hub that this cluster is linked to.
type replicas struct {
	mu     sync.Mutex
	linked map[string]int
}

// meet counts a link to the replica that has answered with a header. Leave has to be called when it has ended. Where another replica is
// looked for, and there is one, it reports whether this one is known.
func (r *replicas) meet(h http.Header, another bool) (leave func(), met bool) {
	id := h.Get(join.HeaderReplica)
	all, err := strconv.Atoi(h.Get(join.HeaderReplicas))
	r.mu.Lock()
	defer r.mu.Unlock()
	if id == "" || err != nil { // it is of a release that does not say
		return func() {}, false
	}
	if another && r.linked[id] > 0 && len(r.linked) < min(all, links) {
		return nil, true
	}
	if r.linked == nil {
		r.linked = map[string]int{}
	}
	r.linked[id]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.linked[id]--; r.linked[id] == 0 {
			delete(r.linked, id)
		}
	}, false
}
