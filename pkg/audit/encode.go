package audit

import (
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// microTime is the form of metav1.MicroTime.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// AppendJSON appends e as an Event of audit.k8s.io/v1, as kube-apiserver writes one into its log, without the end of the line. The
// workspace, the cluster and the login are annotations.
func AppendJSON(dst []byte, e *Event) []byte {
	dst = append(dst, `{"kind":"Event","apiVersion":"audit.k8s.io/v1"`...)
	dst = appendField(dst, "level", string(e.Level))
	dst = appendField(dst, "auditID", e.ID)
	dst = appendField(dst, "stage", string(e.Stage))
	dst = appendField(dst, "requestURI", e.URI)
	dst = appendField(dst, "verb", e.Verb)
	dst = appendUser(dst, e)
	dst = appendList(dst, "sourceIPs", e.Sources)
	dst = appendOptional(dst, "userAgent", e.UserAgent)
	dst = appendObject(dst, e)
	if e.Code != 0 {
		dst = append(dst, `,"responseStatus":{"metadata":{},"code":`...)
		dst = append(strconv.AppendInt(dst, int64(e.Code), 10), '}')
	}
	if b := e.Bodies; b != nil {
		dst = appendBody(dst, "requestObject", b.Request)
		dst = appendBody(dst, "responseObject", b.Response)
	}
	dst = appendTime(dst, "requestReceivedTimestamp", e.Received)
	dst = appendTime(dst, "stageTimestamp", e.At)
	return append(appendAnnotations(dst, e), '}')
}

func appendBody(dst []byte, name string, body []byte) []byte {
	if body == nil {
		return dst
	}
	return append(appendName(dst, name), body...)
}

func appendUser(dst []byte, e *Event) []byte {
	name, uid, groups := e.caller()
	dst = append(dst, `,"user":{`...)
	at := len(dst)
	dst = appendOptional(dst, "username", name)
	dst = appendOptional(dst, "uid", uid)
	return append(first(appendList(dst, "groups", groups), at), '}')
}

func appendObject(dst []byte, e *Event) []byte {
	o := &e.Object
	if o.Resource == "" {
		return dst
	}
	dst = append(dst, `,"objectRef":{`...)
	at := len(dst)
	for _, f := range [...]annotation{
		{"resource", o.Resource}, {"namespace", o.Namespace}, {"name", o.Name}, {"uid", string(o.UID)}, {"apiGroup", o.APIGroup},
		{"apiVersion", o.APIVersion}, {"resourceVersion", o.ResourceVersion}, {"subresource", o.Subresource},
	} {
		dst = appendOptional(dst, f.key, f.value)
	}
	return append(first(dst, at), '}')
}

func appendAnnotations(dst []byte, e *Event) []byte {
	start := len(dst)
	dst = append(dst, `,"annotations":{`...)
	at := len(dst)
	e.eachAnnotation(func(key, value string) { dst = appendField(dst, key, value) })
	if len(dst) == at {
		return dst[:start]
	}
	return append(first(dst, at), '}')
}

// caller returns the user whom the event names: at a login, the one who logs in.
func (e *Event) caller() (name, uid string, groups []string) {
	if e.Login.Verb != "" && e.Login.Username != "" {
		return e.Login.Username, e.Login.UID, nil
	}
	return e.Username, e.UID, e.Groups
}

// eachAnnotation calls f for the annotations of the form audit.k8s.io/v1.
func (e *Event) eachAnnotation(f func(key, value string)) {
	if e.Decision != "" {
		f("authorization.k8s.io/decision", e.Decision)
		f("authorization.k8s.io/reason", e.Reason)
	}
	for _, a := range [...]annotation{
		{"kapis.dev/workspace", e.Workspace}, {"kapis.dev/cluster", e.Cluster}, {"kapis.dev/login", e.Login.Method},
		{"kapis.dev/provider", e.Login.Provider}, {"kapis.dev/client", e.Login.Client},
	} {
		if a.value != "" {
			f(a.key, a.value)
		}
	}
	for _, a := range e.annotations {
		f(a.key, a.value)
	}
	if e.truncated {
		f("audit.k8s.io/truncated", "true")
	}
}

// first removes the comma before the first field of an object that begins at at.
func first(dst []byte, at int) []byte {
	if len(dst) == at {
		return dst
	}
	return append(dst[:at], dst[at+1:]...)
}

func appendOptional(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendField(dst, name, value)
}

func appendField(dst []byte, name, value string) []byte {
	return rawjson.AppendString(appendName(dst, name), value)
}

func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, ',', '"'), name...), '"', ':')
}

func appendList(dst []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return dst
	}
	dst = append(appendName(dst, name), '[')
	for n, v := range values {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = rawjson.AppendString(dst, v)
	}
	return append(dst, ']')
}

func appendTime(dst []byte, name string, t time.Time) []byte {
	dst = append(appendName(dst, name), '"')
	return append(t.UTC().AppendFormat(dst, microTime), '"')
}
