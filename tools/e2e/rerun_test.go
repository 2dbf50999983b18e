package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestAJobRunsAgain(t *testing.T) {
	a, ns, name := admin(t), newNamespace(t), unique("rerunner")
	u := newUser(t, name)
	jobs, job := "/apis/batch/v1/namespaces/"+ns+"/jobs", "/apis/batch/v1/namespaces/"+ns+"/jobs/j"
	rerun := "/kapis/operations.kubesphere.io/v1alpha2/namespaces/" + ns + "/jobs/j?action=rerun"
	a.must(t, http.StatusCreated, http.MethodPost, jobs, obj{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": obj{"name": "j", "annotations": obj{"revisions": `{"7":{"status":"running"}}`}},
		"spec": obj{"completions": 1, "template": obj{"metadata": obj{"labels": obj{"app": "j"}}, "spec": obj{
			"restartPolicy": "Never", "containers": []any{obj{"name": "c", "image": "example/job"}},
		}}},
	})
	read := func() written { return decode[written](t, a.must(t, http.StatusOK, http.MethodGet, job, nil).body) }
	var old written
	eventually(t, "it has Pods", func(context.Context) error {
		if l := a.list(t, "/api/v1/namespaces/"+ns+"/pods?labelSelector=app=j"); len(l.Items) != 1 {
			return fmt.Errorf("%v", l.names())
		}
		return nil
	})
	old = read()
	a.must(t, http.StatusBadRequest, http.MethodPost, strings.Replace(rerun, "=rerun", "=stop", 1), nil)
	a.must(t, http.StatusConflict, http.MethodPost, rerun+"&resourceVersion=1", nil)
	a.must(t, http.StatusNotFound, http.MethodPost, strings.Replace(rerun, "/j?", "/none?", 1), nil)
	u.must(t, http.StatusForbidden, http.MethodPost, rerun, nil)
	role(
		t,
		ns,
		"operator",
		rule{[]string{"operations.kubesphere.io"}, []string{"jobs"}, []string{"create"}},
		rule{[]string{"batch"}, []string{"jobs"}, []string{"get"}},
	)
	bind(t, ns, "operator", obj{"kind": "User", "name": name})
	eventually(t, "to ask for it is not enough: he may not delete it", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, rerun, nil)
		if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, "cannot delete")) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	if now := read(); now.Metadata.UID != old.Metadata.UID {
		t.Fatalf("the Job is another: %+v", now)
	}
	t.Run("a quota that has no room keeps the Job", func(t *testing.T) {
		quota := "/api/v1/namespaces/" + ns + "/resourcequotas"
		a.create(t, quota, obj{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": obj{"name": "q"}, "spec": obj{"hard": obj{"count/jobs.batch": "1"}}})
		other := obj{"apiVersion": "batch/v1", "kind": "Job", "metadata": obj{"name": "other"}, "spec": obj{"template": obj{"spec": obj{
			"restartPolicy": "Never", "containers": []any{obj{"name": "c", "image": "example/job"}}}}}}
		eventually(t, "the quota counts", func(ctx context.Context) error { // by asking for what changes nothing: a run would be one
			r, err := a.do(ctx, http.MethodPost, jobs+"?dryRun=All", other)
			if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, "exceeded quota")) {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
		if r := a.must(t, http.StatusForbidden, http.MethodPost, rerun, nil); !strings.Contains(r.body, "exceeded quota") {
			t.Errorf("%s", r.body)
		}
		a.must(t, http.StatusOK, http.MethodDelete, quota+"/q", nil)
		eventually(t, "the quota counts no more", a.accepts(http.StatusCreated, http.MethodPost, jobs+"?dryRun=All", other))
		if l := a.list(t, jobs); len(l.Items) != 1 {
			t.Errorf("there are %v", l.names())
		}
	})
	recorded := func(number string) func(context.Context) error { // D11
		return func(context.Context) error {
			job := read()
			runs := decode[map[string]struct {
				Status, UID string
				Succeed     int
			}](t, job.Metadata.Annotations["revisions"])
			if run := runs[number]; run.UID != job.Metadata.UID || run.Status != "completed" || run.Succeed != 1 {
				return fmt.Errorf("run %s is recorded as %+v", number, run)
			}
			return nil
		}
	}
	eventually(t, "the run is recorded", recorded("8"))
	old = read()
	r := a.must(t, http.StatusOK, http.MethodPost, rerun+"&resourceVersion="+old.Metadata.ResourceVersion, nil)
	if r.body != `{"message":"success"}` {
		t.Errorf("answered %s", r.body)
	}
	now := read()
	if now.Metadata.UID == old.Metadata.UID || !strings.Contains(now.Metadata.Annotations["revisions"], `{"7":{"status":"unfinished"}`) || now.Spec["suspend"] == true {
		t.Errorf("now it is %+v", now)
	}
	if l := a.list(t, jobs); len(l.Items) != 1 {
		t.Errorf("there are %v", l.names())
	}
	eventually(t, "it has Pods of its own", func(context.Context) error {
		l := a.list(t, "/api/v1/namespaces/"+ns+"/pods?labelSelector=batch.kubernetes.io/controller-uid="+now.Metadata.UID)
		if len(l.Items) != 1 {
			return fmt.Errorf("%v", l.names())
		}
		return nil
	})
	eventually(t, "its run is recorded after the first", recorded("9"))
}
