package child

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/lookup"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// operation is one job.
type operation struct {
	helm.Job
	lines *lines

	// What follows is nil for Validate.
	getter      *getter
	config      *action.Configuration
	client      *kube.Client
	definitions *definitions
	namespaces  typedcorev1.NamespaceInterface // read with the connection's own credential

	looked   *lookup.Denied // what templates may not read
	given    string         // the digest of what the rendered objects give
	rendered bool           // the templates of the chart have been executed
}

func newOperation(job helm.Job, l *lines) (*operation, error) {
	o := &operation{Job: job, lines: l}
	if job.Request.Operation == helm.Validate {
		return o, nil
	}
	as, own := job.Request.Cluster.Config(true), job.Request.Cluster.Config(false)
	if as.Impersonate.UserName == "" {
		return nil, fault(helm.ReasonInvalid, "no user is named to apply the release as")
	}
	as.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return lookup.Hide(next, l.hide, job.Request.Name, job.Request.Namespace)
	})
	if job.Request.Operation == helm.Preview {
		for _, cfg := range []*rest.Config{as, own} {
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRuns{next} })
		}
	}
	if job.Request.Operation == helm.Render {
		o.looked = &lookup.Denied{}
		as.Wrap(o.looked.Transport)
	}
	g, err := newGetter(as, job.Request.Namespace)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(as)
	if err != nil {
		return nil, err
	}
	there, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	records, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	secrets := driver.NewSecrets(records.CoreV1().Secrets(job.Request.Namespace))
	secrets.SetLogger(l)
	client := kube.New(g)
	client.Namespace = job.Request.Namespace
	client.SetLogger(l)
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(l))
	pinned := &record.Pinned{Driver: record.Bounded{Driver: secrets}, Release: job.Request.Name, Namespace: job.Request.Namespace}
	cfg.RESTClientGetter, cfg.KubeClient = g, &owning{checkedByServer{client}, job.Request.Name, job.Request.Namespace}
	cfg.Releases = storage.Init(pinned)
	cfg.Releases.SetLogger(l)
	cfg.Releases.MaxHistory = job.HistoryMax
	cfg.HookOutputFunc = func(_, _, _ string) io.Writer { return io.Discard }
	o.getter, o.config, o.client, o.namespaces = g, cfg, client, records.CoreV1().Namespaces()
	crds := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	o.definitions = &definitions{there: there.Resource(crds), client: objects.Resource(crds), discovery: g.live}
	return o, nil
}

func (o *operation) run(ctx context.Context) (*helm.Result, error) {
	switch r := &o.Request; r.Operation {
	case helm.Validate:
		o.lines.phase(helm.PhaseRendering)
		return nil, o.validate()
	case helm.Render:
		o.lines.phase(helm.PhaseRendering)
		return o.render(ctx)
	case helm.Preview:
		o.lines.phase(helm.PhaseRendering)
		return o.preview(ctx)
	case helm.Apply:
		o.lines.phase(helm.PhaseRendering)
		return o.apply(ctx)
	case helm.Rollback:
		return o.rollback()
	case helm.Uninstall:
		return o.uninstall(ctx)
	case helm.Status:
		all, err := record.History(o.config.Releases, r.Name)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, refused(helm.ReasonNotFound, record.ErrNone)
		}
		result := &helm.Result{Release: record.View(all)}
		if result.Objects, err = recorded(all[len(all)-1]); err == nil {
			result.Recorded, err = former(all)
		}
		return result, err
	}
	return nil, fault(helm.ReasonInvalid, "an unknown operation")
}

// hookTimeout bounds each hook, so that something of the operation's time is left for a rollback.
func (o *operation) hookTimeout() time.Duration { return o.Timeout * 9 / 10 }

func (o *operation) validate() error {
	c, err := load(o.Request.Chart)
	if err != nil {
		return err
	}
	v, err := values(&o.Request)
	if err != nil {
		return err
	}
	return validate(c, v)
}

// renderer returns the post-renderer.
func (o *operation) renderer(ctx context.Context) *postRenderer {
	return &postRenderer{labels: o.Request.Labels, dropStatusOf: o.Request.DropStatusOf,
		rendered: func() {
			o.rendered = true
			o.lines.phase(helm.PhaseApplying)
		},
		given: func(digest string) error {
			o.given = digest
			if want := o.Request.GivesDigest; want != "" && want != digest {
				return fault(helm.ReasonInvalid, "the chart renders other roles, role templates or bindings each time: what they give can't be"+
					" checked")
			}
			return nil
		},
		definition: func(manifest string) error {
			u, err := decode(manifest)
			if err != nil || u == nil {
				return refused(helm.ReasonInvalid, err)
			}
			return o.definitions.check(ctx, u)
		}}
}

// agrees reports whether the records are those that the request was made for.
func (o *operation) agrees(all []*release.Release) bool {
	switch want := o.Request.RecordDigest; {
	case want == "":
		return true
	case len(all) == 0:
		return want == helm.NoRecord
	default:
		now := record.View(all)
		return now.RecordDigest == want && now.BaseDigest == o.Request.BaseDigest
	}
}

// changedRecord is the error of an operation whose record is not the one that it was asked to work on.
func (o *operation) changedRecord() error {
	return fault(helm.ReasonInvalid, "the record of the release %s was changed by somebody else: it is not the one that was noted",
		o.Request.Name)
}

func (o *operation) newest(all []*release.Release) *helm.Result {
	result := &helm.Result{Release: record.View(all)}
	if result.Release != nil {
		if objects, err := recorded(all[len(all)-1]); err == nil { // nothing is known of what can't be read
			result.Objects = objects
		}
	}
	return result
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
