package audit

import (
	"encoding/json"
	"net"
	"os"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// kubesphereEvent is an event as receivers of KubeSphere's releases read one. Its keys are the fields' names.
type kubesphereEvent struct {
	// Devops is what release 3 has in place of HostName and HostIP.
	Devops             *string `json:",omitempty"`
	Workspace, Cluster string
	Message            string
	HostName, HostIP   *string `json:",omitempty"`

	Level, AuditID, Stage, RequestURI, Verb string
	User                                    authnv1.UserInfo
	ImpersonatedUser                        *authnv1.UserInfo
	SourceIPs                               []string
	UserAgent                               string
	ObjectRef                               *kubesphereObject
	ResponseStatus                          *kubesphereStatus
	RequestObject, ResponseObject           json.RawMessage
	RequestReceivedTimestamp                metav1.MicroTime
	StageTimestamp                          metav1.MicroTime
	Annotations                             map[string]string
}

// kubesphereObject has the scope of the request in ResourceVersion.
type kubesphereObject struct {
	Resource, Namespace, Name, UID, APIGroup, APIVersion, ResourceVersion, Subresource string
}

type kubesphereStatus struct {
	Metadata struct{} `json:"metadata"`
	Code     int      `json:"code"`
}

// recentEvent is an event as pages of release 3 read it: the name of the user has two keys.
type recentEvent struct {
	*kubesphereEvent
	User recentUser
}

type recentUser struct {
	Username string
	Name     string   `json:"username"`
	UID      string   `json:"uid,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// kubesphere4 returns the encoder of events as release 4 has them: with the name and the address of this host.
func kubesphere4(host, address string) Encode {
	return func(dst []byte, e *Event) []byte {
		out := kubesphere(e)
		out.HostName, out.HostIP = &host, &address
		return appendMarshalled(dst, out)
	}
}

// kubesphere3 appends an event as release 3 has it.
func kubesphere3(dst []byte, e *Event) []byte {
	out := kubesphere(e)
	out.Devops = new(string)
	return appendMarshalled(dst, out)
}

func kubesphere(e *Event) *kubesphereEvent {
	out := &kubesphereEvent{
		Workspace: e.Workspace, Cluster: e.Cluster,
		Level: string(e.Level), AuditID: e.ID, Stage: string(e.Stage), RequestURI: e.URI, Verb: e.Verb,
		SourceIPs: e.Sources, UserAgent: e.UserAgent,
		RequestReceivedTimestamp: metav1.NewMicroTime(e.Received.UTC()), StageTimestamp: metav1.NewMicroTime(e.At.UTC()),
	}
	out.User.Username, out.User.UID, out.User.Groups = e.caller()
	if o := &e.Object; o.Resource != "" {
		out.ObjectRef = &kubesphereObject{
			Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), APIGroup: o.APIGroup,
			APIVersion: o.APIVersion, ResourceVersion: e.Scope, Subresource: o.Subresource,
		}
	}
	if e.Code != 0 {
		out.ResponseStatus = &kubesphereStatus{Code: e.Code}
	}
	if b := e.Bodies; b != nil {
		out.RequestObject, out.ResponseObject = b.Request, b.Response
	}
	e.eachAnnotation(func(key, value string) {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = value
	})
	return out
}

func appendMarshalled(dst []byte, out *kubesphereEvent) []byte {
	text, err := json.Marshal(out)
	if err != nil { // it has nothing that could not be written
		klog.ErrorS(err, "An audit event could not be encoded")
		return append(dst, "{}"...)
	}
	return append(dst, text...)
}

// thisHost returns the name of this host, and its first address that other hosts may know; "" where there is none.
func thisHost() (name, address string) {
	name, _ = os.Hostname() //nolint:errcheck // an event without it is still an event
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return name, n.IP.String()
		}
	}
	return name, ""
}

// Record returns e as pages of the console read it.
func (e *Event) Record() json.RawMessage {
	out := recentEvent{kubesphereEvent: kubesphere(e)}
	out.Devops = new(string)
	u := out.kubesphereEvent.User
	out.User = recentUser{u.Username, u.Username, u.UID, u.Groups}
	text, err := json.Marshal(out)
	if err != nil { // it has nothing that could not be written
		klog.ErrorS(err, "An audit event could not be encoded")
		return json.RawMessage("{}")
	}
	return text
}
