package kit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

const (
	// LabelRun is on the objects of a trial, with the name of its extension.
	LabelRun = "kapis.dev/extension-run"
	// annotationRun says which trial made an object: the last one removes it.
	annotationRun = "kapis.dev/extension-run-id"
	// maxPage bounds a page, in bytes: what a JSBundle takes.
	maxPage = 512 << 10
	// removeWithin bounds the removal of a trial.
	removeWithin = 20 * time.Second
	// reachEvery is how many looks at the page there are for one at whether the backend is reached.
	reachEvery = 10
)

// Trial is an extension whose page and backend are tried in an installation while they change. Nothing is installed.
type Trial struct {
	// Name is that of the extension.
	Name string
	// Backend is the URL of the backend, as the platform reaches it; empty for none.
	Backend string
	// API is the group and version that the backend answers for, empty for none, and Proxy the path below /proxy/, empty for none.
	API   schema.GroupVersion
	Proxy string
	// Page is the file of the page; empty for none.
	Page string
}

// trial is one that runs.
type trial struct {
	*Trial
	*Installation
	id   string
	made []ref
	// digest is that of the page which is there, and problem what was said last of one that is not.
	digest  [sha256.Size]byte
	problem string
	reached map[ref]string
}

// ref names an object of a trial.
type ref struct {
	of   schema.GroupVersionResource
	name string
}

func (r ref) String() string { return r.of.Resource + "/" + r.name }

// Run puts a trial into the installation, follows its page, and removes everything when ctx ends.
func (i *Installation) Run(ctx context.Context, in *Trial) (err error) {
	t := &trial{Trial: in, Installation: i, id: rand.Text(), reached: map[ref]string{}}
	if err := t.check(); err != nil {
		return err
	}
	defer func() {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		err = errors.Join(err, t.remove(removing))
	}()
	if err := t.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	t.say("Ctrl-C removes them. If this program is killed, they stay until the next run, or:\n  %s", RemoveCommand(t.Name))
	for n := 0; t.wait(ctx) == nil; n++ {
		t.follow(ctx)
		if n%reachEvery == 0 {
			t.reach(ctx)
		}
	}
	return nil
}

// RemoveCommand is the command that removes what a trial has left.
func RemoveCommand(name string) string {
	var kinds []string
	for _, of := range []schema.GroupVersionResource{apiServices, reverseProxies, jsBundles} {
		kinds = append(kinds, of.GroupResource().String())
	}
	return "kubectl delete " + strings.Join(kinds, ",") + " -l " + LabelRun + "=" + name
}

func (t *Trial) check() error {
	if err := chart.CheckName(t.Name); err != nil {
		return err
	}
	if t.Backend == "" && t.Page == "" {
		return errors.New("there is neither a backend nor a page to try: see --backend and --page")
	}
	if t.Backend == "" {
		return nil
	}
	u, err := url.Parse(t.Backend)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return errors.New("--backend is not a URL such as http://192.168.1.20:8080, without path, user and query") // it may have a password
	}
	return nil
}

// loopback reports whether the backend is named by an address that means another machine everywhere.
func (t *Trial) loopback() bool {
	u, err := url.Parse(t.Backend)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost") ||
		ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// begin makes the objects.
func (t *trial) begin(ctx context.Context) error {
	if t.Page != "" {
		raw, err := t.readPage()
		if err != nil {
			return err
		}
		t.digest = sha256.Sum256(raw)
		link := "/dist/" + t.Name + "/index.js"
		if err := t.put(ctx, jsBundles, "JSBundle", t.Name, map[string]any{"raw": raw}, link+" is "+t.Page); err != nil {
			return err
		}
	}
	if t.Backend == "" {
		return nil
	}
	if !t.API.Empty() {
		spec := map[string]any{"group": t.API.Group, "version": t.API.Version, "url": t.Backend}
		answers := "/kapis/" + t.API.String() + "/ is answered by " + t.Backend
		if err := t.put(ctx, apiServices, "APIService", t.API.Version+"."+t.API.Group, spec, answers); err != nil {
			return err
		}
	}
	if path := strings.TrimSuffix(t.Proxy, "/"); path != "" {
		spec := map[string]any{"matcher": map[string]any{"path": path + "/*", "method": "*"}, "upstream": map[string]any{"url": t.Backend},
			"directives": map[string]any{"stripPathPrefix": path, "authProxy": true}}
		if err := t.put(ctx, reverseProxies, "ReverseProxy", t.Name, spec, path+"/ is answered by "+t.Backend); err != nil {
			return err
		}
	}
	if t.loopback() {
		t.say("%s is an address of the machine that ks-apiserver runs on. It connects there with egress.allowLoopback alone, as `make run`"+
			" sets it: with another installation, name an address of this machine that its network reaches.", t.Backend)
	}
	return nil
}

// put makes one object, or takes over that of a former trial.
func (t *trial) put(ctx context.Context, of schema.GroupVersionResource, kind, name string, spec map[string]any, what string) error {
	metadata := map[string]any{"name": name, "labels": map[string]string{LabelRun: t.Name},
		"annotations": map[string]string{annotationRun: t.id}}
	o, err := encode(map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind, "metadata": metadata, "spec": spec})
	if err != nil {
		return err
	}
	at, r := t.Client.Resource(of), ref{of, name}
	t.made = append(t.made, r) // also where the answer is lost: what has not the id of this trial is not removed
	_, err = at.Create(ctx, o, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		if err == nil {
			t.say("%s created: %s", r, what)
		}
		return err
	}
	is, err := at.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if is.GetLabels()[LabelRun] != t.Name {
		by := "somebody"
		if e := is.GetLabels()[v1alpha1.LabelExtension]; e != "" {
			by = "the extension " + e
		}
		return fmt.Errorf("%s is there, made by %s: remove it for the time of the trial, or try under another name with --name", r, by)
	}
	o.SetResourceVersion(is.GetResourceVersion())
	if _, err = at.Update(ctx, o, metav1.UpdateOptions{}); err == nil {
		t.say("%s taken over from a former run: %s", r, what)
	}
	return err
}

// remove removes the objects of this trial.
func (t *trial) remove(ctx context.Context) error {
	var all []error
	for _, r := range t.made {
		if err := t.removeOne(ctx, r); err != nil {
			all = append(all, fmt.Errorf("remove %s: %w", r, err))
		}
	}
	if len(all) > 0 {
		t.say("What is left is removed by:\n  %s", RemoveCommand(t.Name))
	}
	return errors.Join(all...)
}

func (t *trial) removeOne(ctx context.Context, r ref) error {
	at := t.Client.Resource(r.of)
	for {
		is, err := at.Get(ctx, r.name, metav1.GetOptions{})
		if err == nil {
			if is.GetAnnotations()[annotationRun] != t.id || is.GetLabels()[LabelRun] != t.Name {
				return nil // somebody else's by now
			}
			uid, version := is.GetUID(), is.GetResourceVersion()
			err = at.Delete(ctx, r.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		}
		switch {
		case err == nil:
			t.say("%s removed", r)
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return err
		}
		if err := t.wait(ctx); err != nil { // it was changed in between, by its controller for example
			return err
		}
	}
}

func (t *trial) readPage() ([]byte, error) {
	raw, err := readFile(t.Page, maxPage)
	if err == nil && len(raw) == 0 {
		err = fmt.Errorf("%s is empty", t.Page)
	}
	return raw, err
}

// follow sends the page where it has changed. What can't be read or sent is tried again, and told once.
func (t *trial) follow(ctx context.Context) {
	if t.Page == "" {
		return
	}
	raw, err := t.readPage()
	if err == nil {
		digest := sha256.Sum256(raw)
		if digest == t.digest {
			t.problem = ""
			return
		}
		if err = t.send(ctx, raw); err == nil {
			t.digest = digest
			t.problem = ""
			t.say("%s: %s is there now, with %d bytes", ref{jsBundles, t.Name}, t.Page, len(raw))
			return
		}
	}
	if text := err.Error(); ctx.Err() == nil && text != t.problem {
		t.problem = text
		t.say("the page is not changed: %s", text)
	}
}

// send replaces the page. The annotation has to be that of this trial: a later one has its own page.
func (t *trial) send(ctx context.Context, raw []byte) error {
	at := t.Client.Resource(jsBundles)
	is, err := at.Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if is.GetAnnotations()[annotationRun] != t.id {
		return errors.New("another run has taken it over")
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": is.GetResourceVersion()},
		"spec": map[string]any{"raw": raw}})
	if err != nil {
		return fmt.Errorf("encode a change: %w", err)
	}
	_, err = at.Patch(ctx, t.Name, types.MergePatchType, change, metav1.PatchOptions{})
	return err
}

// reach tells what has changed in whether the platform reaches the backend.
func (t *trial) reach(ctx context.Context) {
	for _, r := range t.made {
		if r.of == jsBundles {
			continue
		}
		o, err := t.Client.Resource(r.of).Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			continue // the next look may have it
		}
		if text := reachable(o); text != t.reached[r] {
			t.reached[r] = text
			t.say("%s: %s", r, text)
		}
	}
}

// reachable says what the platform says of a backend, "" for nothing.
func reachable(o *unstructured.Unstructured) string {
	var of struct {
		Status v1alpha1.Status `json:"status"`
	}
	if decode(o, &of) != nil {
		return ""
	}
	switch c := meta.FindStatusCondition(of.Status.Conditions, v1alpha1.ConditionReachable); {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return "the backend is reached"
	default:
		return "the backend is not reached: " + c.Message
	}
}
