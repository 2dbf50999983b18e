package fleetsync

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// givenRole is a role that a binding gives, as it is sent; without an object it is not sent.
type givenRole struct {
	Ref
	object json.RawMessage
}

// givenRoles reads the roles that bindings give, each once.
type givenRoles struct {
	read  reading
	known map[Ref]*content
}

// of returns the role that a binding gives: none that every installation has, that can't be read, or that is of another workspace, which
// may not be to be in the member.
func (g *givenRoles) of(ctx context.Context, kind schema.GroupVersionResource, binding *content) (givenRole, error) {
	k, binds := rolesOf[kind.Resource]
	if !binds || shipped().has(binding.workspace, binding.role) {
		return givenRole{}, nil
	}
	r := Ref{k.Resource, binding.role}
	role, known := g.known[r]
	if !known {
		var err error
		if role, err = g.read.content(ctx, k, r); err != nil {
			return givenRole{}, err
		}
		g.known[r] = role
	}
	if role == nil || role.workspace != binding.workspace {
		return givenRole{}, nil
	}
	return givenRole{r, role.object}, nil
}

// rolesIn returns the roles that bindings among changes give.
func rolesIn(changes []Change) Roles {
	out := Roles{}
	for i := range changes {
		gives := &changes[i].gives
		if gives.object == nil {
			continue
		}
		if out[gives.Kind] == nil {
			out[gives.Kind] = map[string]json.RawMessage{}
		}
		out[gives.Kind][gives.Name] = gives.object
	}
	return out
}

// size returns how many bytes a change adds to what is sent, at most.
func (c *Change) size() int { return len(c.Object) + len(c.gives.object) }
