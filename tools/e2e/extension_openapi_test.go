package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// X11: what a backend says of its group is in the documents that clients read; what it says of other paths is not, and its end is seen.
func TestX11OpenAPIHasAnExtensionsPart(t *testing.T) {
	a, b := admin(t), newShopBackend(t)
	group := unique("shop") + ".example.com"
	base := "/kapis/" + group + "/v1"
	b.document = fmt.Sprintf(`{"swagger":"2.0","info":{"title":"shop","version":"1"},"paths":{
		%q:{"get":{"operationId":"orders","responses":{"200":{"description":"ok","schema":{"$ref":"#/definitions/Order"}}}}},
		"/kapis/iam.kubesphere.io/v1beta1/%s":{"get":{"responses":{"200":{"description":"not its own"}}}}},
		"definitions":{"Order":{"type":"object"}}}`, base+"/orders", group)
	a.create(t, extensionsAPI+"/apiservices", extensionObject("APIService", group, obj{"group": group, "version": "v1", "url": b.URL}))
	index := fmt.Sprintf(`"kapis/%s/v1":{"serverRelativeURL":`, group)
	eventually(t, "the index has it", a.answersWith(http.StatusOK, "/openapi/v3", index))
	part := a.must(t, http.StatusOK, http.MethodGet, "/openapi/v3/kapis/"+group+"/v1", nil).body
	if !strings.Contains(part, base+"/orders") || !strings.Contains(part, group+"_v1_Order") {
		t.Errorf("%s", clip(part))
	}
	eventually(t, "version 2 has it", a.answersWith(http.StatusOK, "/openapi/v2", fmt.Sprintf(`%q:{"get"`, base+"/orders")))
	if body := a.must(t, http.StatusOK, http.MethodGet, "/openapi/v2", nil).body; strings.Contains(body, "v1beta1/"+group) {
		t.Error("it describes a path that is not its own")
	}
}
