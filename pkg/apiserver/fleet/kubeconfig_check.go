package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Check returns each check that a kubeconfig fails for a Cluster, and the identity of the cluster that it leads to.
func (h *Hub) Check(ctx context.Context, of *clusterv1alpha1.Cluster, kubeconfig []byte) (uid string, findings []direct.Finding,
	err error) {
	c, err := direct.Parse(kubeconfig, h.dialing.Transport)
	if err != nil {
		return "", []direct.Finding{{Check: "kubeconfig", Found: err.Error()}}, nil
	}
	known := direct.Known{Hub: h.UID, Host: h.Host, Members: map[string]string{},
		SharedSecret: slices.Contains(h.Members.SharedSecrets, of.Name)}
	known.Lite = isLite(of) && !known.SharedSecret
	all, err := h.enter.clusters.Store.Snapshot(ctx, ClustersKind)
	if err != nil {
		return "", nil, err
	}
	all.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		o := &clusterv1alpha1.Cluster{}
		if err = json.Unmarshal([]byte(all.Record(ref).JSON.String()), o); err != nil {
			err = fmt.Errorf("read the cluster %q: %w", ref.Name, err)
			return false
		}
		if o.Status.UID != "" {
			known.Members[string(o.Status.UID)] = o.Name
		}
		return true
	})
	if err != nil {
		return "", nil, err
	}
	uid, findings = direct.Check(ctx, c, of.Name, known)
	if known.Lite && uid != "" {
		findings = append(findings, h.consents(ctx, of.Name, kubeconfig)...)
	}
	return uid, findings, nil
}
