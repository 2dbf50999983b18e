package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// F15, F24: members of a cluster of the fleet, and its roles, are those of that cluster, and are given by the hub to users whom it has never heard of: they
// may enter it, as what their role says, and no longer when it is taken away.
func TestAClusterOfTheFleetHasMembersAndRoles(t *testing.T) {
	a := admin(t)
	u := newUser(t, "cluster-member")
	for _, member := range members {
		in, nodes := "/clusters/"+member+"/kapis/iam.kubesphere.io/v1beta1", "/clusters/"+member+"/kapis/resources.kubesphere.io/v1alpha3/nodes"
		u.must(t, http.StatusForbidden, http.MethodGet, nodes, nil)
		a.becomes(t, patience, http.StatusOK, http.MethodPost, in+"/clustermembers", []obj{{"username": u.name, "roleRef": "cluster-viewer"}})
		u.becomes(t, patience, http.StatusOK, http.MethodGet, nodes, nil)
		u.must(t, http.StatusForbidden, http.MethodDelete, "/clusters/"+member+"/api/v1/nodes/none", nil)
		if text := a.must(t, http.StatusOK, http.MethodGet, in+"/clusterroles", nil); !strings.Contains(text, `"cluster-admin"`) {
			t.Errorf("the roles of %s are %s", member, text)
		}
		eventually(t, "they are listed, once the hub has told "+member+" of them", func(ctx context.Context) error {
			resp, err := a.ask(ctx, http.MethodGet, in+"/clustermembers", nil)
			if err == nil && !strings.Contains(string(resp.Body), `"`+u.name+`"`) {
				err = fmt.Errorf("the members are %s", resp.Body)
			}
			return err
		})
		a.must(t, http.StatusOK, http.MethodDelete, in+"/clustermembers/"+u.name, nil)
		u.becomes(t, patience, http.StatusForbidden, http.MethodGet, nodes, nil)
	}
	eventually(t, "nothing is left of them", func(context.Context) error {
		for _, member := range members {
			out, err := at(t, member, "get", "clusterrolebindings.iam.kubesphere.io", "-o", "name")
			if err != nil {
				return err
			}
			if strings.Contains(out, u.name) {
				return fmt.Errorf("%s has %s", member, out)
			}
		}
		return nil
	})
}
