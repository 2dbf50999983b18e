package fleet

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// F12: no secret is shared unless members are listed, and each start names them, without a secret.
func TestASharedSecretIsSaidAtEachStart(t *testing.T) {
	var said bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&said)
	defer klog.LogToStderr(true)
	if d := (&SharedSecret{Directory: "/etc/kubesphere", Own: []byte("canary")}).dialled(); d != nil || said.Len() > 0 {
		t.Errorf("nothing is listed: %+v, %s", d, said.String())
	}
	d := (&SharedSecret{Members: []string{"shop"}, Directory: "/etc/kubesphere", Own: []byte("canary")}).dialled()
	klog.Flush()
	if d == nil || len(d.Secrets.Members) != 1 || string(d.Secrets.Own) != "canary" {
		t.Errorf("%+v", d)
	}
	if text := said.String(); !strings.Contains(text, `"shop"`) || strings.Contains(text, "canary") {
		t.Errorf("it says %q", text)
	}
}
