package dynamic

import (
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/status"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// state is the present state of an object, at kube-apiserver.
type state struct {
	uid, resourceVersion string
	raw                  redaction.Raw
}

// GetUID implements caller.Live.
func (s *state) GetUID() types.UID { return types.UID(s.uid) }

// GetResourceVersion implements caller.Live.
func (s *state) GetResourceVersion() string { return s.resourceVersion }

// metadataOnly asks for an object's metadata, and accepts the whole object from an aggregated server that can't do that.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// readLive reads the object from kube-apiserver, as the caller: the cache may lag, and the result decides what may be written. An
// object of another workspace is not found.
func (o *writeRequest) readLive(whole bool) (*state, error) {
	path := o.path
	if o.info.Subresource != "" {
		path = strings.TrimSuffix(path, "/"+o.info.Subresource)
	}
	out := outgoing{method: http.MethodGet, path: path}
	if !whole {
		out.accept = metadataOnly
	}
	res, err := o.send(out)
	if err != nil {
		return nil, err
	}
	raw, err := readAnswer(res)
	if err != nil {
		return nil, err
	}
	s := &state{raw: raw}
	metadata := rawjson.Get(raw.Unredacted(), "metadata")
	s.uid, s.resourceVersion = rawjson.GetText(metadata, "uid"), rawjson.GetText(metadata, "resourceVersion")
	if s.uid == "" || s.resourceVersion == "" {
		return nil, status.Errorf(http.StatusBadGateway,
			"kube-apiserver's answer has no metadata.uid and metadata.resourceVersion: the object can't be written safely")
	}
	if o.workspace != "" && rawjson.GetText(metadata, "labels", workspaceLabel) != o.workspace {
		return nil, apierrors.NewNotFound(o.kind.GVR.GroupResource(), o.info.Name)
	}
	return s, nil
}
