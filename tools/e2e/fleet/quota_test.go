package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// F43: a workspace has a quota in each cluster, which counts there alone, also while the hub does not reach that cluster; and one list shows
// all of them, with what is used, and names the clusters that did not answer.
func TestAWorkspaceHasAQuotaInEachCluster(t *testing.T) {
	const ws = "quotas"
	a, u := admin(t), newUser(t, "quota-boss")
	a.must(t, http.StatusOK, http.MethodPost, workspace, named("WorkspaceTemplate", ws, obj{"spec": obj{
		"placement": obj{"clusters": []obj{{"name": direct}, {"name": dialer}}}, "template": obj{"spec": obj{"manager": u.name}}}}))
	t.Cleanup(func() {
		_, _ = a.ask(context.Background(), http.MethodDelete, workspace+"/"+ws, obj{"propagationPolicy": "Background"})
	})
	hard := map[string]string{direct: "1", dialer: "3"}
	for _, member := range members {
		in := "/clusters/" + member + workspace + "/" + ws
		u.becomes(t, patience, http.StatusOK, http.MethodPost, in+"/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": ws + "-ns"}})
		u.must(t, http.StatusNotFound, http.MethodGet, in+"/resourcequotas/"+ws, nil)
		body := obj{"apiVersion": "quota.kubesphere.io/v1alpha2", "kind": "ResourceQuota",
			"metadata": obj{"name": ws}, "spec": obj{"quota": obj{"hard": obj{"services": hard[member]}}}}
		u.must(t, http.StatusForbidden, http.MethodPost, in+"/resourcequotas", body) // nobody sets their own bound
		a.must(t, http.StatusOK, http.MethodPost, in+"/resourcequotas", body)
	}
	service := func(name string) obj {
		return obj{"apiVersion": "v1", "kind": "Service", "metadata": obj{"name": name}, "spec": obj{"ports": []obj{{"port": 80}}}}
	}
	services := func(member string) string { return "/clusters/" + member + "/api/v1/namespaces/" + ws + "-ns/services" }
	for _, member := range members {
		u.becomes(t, patience, http.StatusCreated, http.MethodPost, services(member), service("one"))
	}
	// The first cluster's is full, the other's is not.
	eventually(t, "the quota is full", func(ctx context.Context) error {
		resp, err := u.ask(ctx, http.MethodPost, services(direct)+"?dryRun=All", service("two"))
		if err == nil && (resp.Status != http.StatusForbidden || !strings.Contains(string(resp.Body), "exceeded quota")) {
			err = fmt.Errorf("%d %.600s", resp.Status, resp.Body)
		}
		return err
	})
	u.becomes(t, patience, http.StatusCreated, http.MethodPost, services(dialer), service("two")) // once it is known what is used

	list := "/fleet/kapis/quota.kubesphere.io/v1alpha2/workspaces/" + ws + "/resourcequotas?memberTimeout=10s"
	used := func(text string) (map[string]string, []string, error) {
		var o struct {
			Clusters struct{ Missing []struct{ Name string } }
			Items    []struct {
				Metadata struct{ Annotations map[string]string }
				Spec     struct {
					Quota struct{ Hard map[string]string }
				}
				Status struct {
					Total struct{ Used map[string]string }
				}
			}
		}
		err := json.Unmarshal([]byte(text), &o)
		got, missing := map[string]string{}, []string{}
		for _, i := range o.Items {
			got[i.Metadata.Annotations["kapis.dev/cluster"]] = i.Status.Total.Used["services"] + " of " + i.Spec.Quota.Hard["services"]
		}
		for _, m := range o.Clusters.Missing {
			missing = append(missing, m.Name)
		}
		return got, missing, err
	}
	eventually(t, "all quotas are shown", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, list, nil)
		if err != nil {
			return err
		}
		got, missing, err := used(string(resp.Body))
		if err == nil && (got[direct] != "1 of 1" || got[dialer] != "2 of 3" || len(got) != 2 || len(missing) != 0) {
			err = fmt.Errorf("%v, missing %v: %.600s", got, missing, resp.Body)
		}
		return err
	})

	// What is used in a cluster that does not answer is not guessed, and what is there counts there all the same.
	process := pid(t, dialer)
	if err := syscall.Kill(process, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(process, syscall.SIGCONT) }()
	eventually(t, "the cluster that is away is named", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, list, nil)
		if err != nil {
			return err
		}
		got, missing, err := used(string(resp.Body))
		if err == nil && (got[direct] != "1 of 1" || len(got) != 1 || strings.Join(missing, " ") != dialer) {
			err = fmt.Errorf("%v, missing %v: %.600s", got, missing, resp.Body)
		}
		return err
	})
	if _, err := at(t, dialer, "-n", ws+"-ns", "create", "service", "clusterip", "three", "--tcp=80"); err != nil {
		t.Error(err)
	}
	if _, err := at(t, dialer, "-n", ws+"-ns", "create", "service", "clusterip", "four", "--tcp=80"); err == nil || !strings.Contains(err.Error(), "quota") {
		t.Errorf("more than the quota, without the hub: %v", err)
	}
	if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	u.becomes(t, patience, http.StatusOK, http.MethodGet, services(dialer), nil)
}
