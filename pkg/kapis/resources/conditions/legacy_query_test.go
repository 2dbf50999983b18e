package conditions_test

import (
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/resources/conditions"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/web"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// said writes the parameters of today's list that a query was made of.
func said(q *query.Query) string {
	values := url.Values{}
	for _, name := range strings.Fields("limit page sortBy ascending name names q ownerReference ownerKind labelSelector annotation cel status type" +
		" nodeName pvcName serviceName targetKind targetName storageClassName label fieldSelector uid") {
		if v, ok := q.Param(name); ok {
			values.Set(name, v)
		}
	}
	out, _ := url.QueryUnescape(values.Encode())
	return out
}

func TestOlderListsAreTranslatedIntoQueries(t *testing.T) { // O28
	const first = "&limit=10&page=1&sortBy=creationTimestamp"
	for _, c := range []struct{ name, kind, query, want string }{
		{"Nothing", "pods", "", "ascending=true" + first},
		{"Paging", "pods", "paging=limit%3D20%2Cpage%3D3", "ascending=true&limit=20&page=3&sortBy=creationTimestamp"},
		{"LimitAndPage", "pods", "limit=5&page=2", "ascending=true&limit=5&page=2&sortBy=creationTimestamp"},
		{"Start", "pods", "limit=5&start=15", "ascending=true&limit=5&page=4&sortBy=creationTimestamp"},
		{"All", "pods", "paging=limit%3D-1%2Cpage%3D1", "ascending=true&limit=-1&page=1&sortBy=creationTimestamp"},
		{"Order", "deployments", "orderBy=updateTime&reverse=true", "ascending=false&limit=10&page=1&sortBy=updateTime"},
		{"OrderOfCronJobs", "cronjobs", "orderBy=lastScheduleTime", "ascending=true&limit=10&page=1&sortBy=.status.lastScheduleTime"},
		{"OrderByName", "services", "orderBy=name&reverse=false", "ascending=true&limit=10&page=1&sortBy=name"},
		{"Name", "pods", "conditions=name~web", "ascending=true&limit=10&name=web&page=1&sortBy=creationTimestamp"},
		{"ExactNames", "pods", "conditions=name=web|db", "ascending=true&limit=10&names=web,db&page=1&sortBy=creationTimestamp"},
		{"StatusAndLabel", "deployments", "conditions=status=running,app=web",
			"ascending=true&labelSelector=app=web&limit=10&page=1&sortBy=creationTimestamp&status=running"},
		{"StatusOfNoSuchKindIsALabel", "services", "conditions=status=x", "ascending=true&labelSelector=status=x" + first},
		{"Keyword", "pods", "conditions=keyword=a%20b", "ascending=true&limit=10&page=1&q=a b&sortBy=creationTimestamp"},
		{"Owner", "pods", "conditions=owner=u-1", "ascending=true&limit=10&ownerReference=u-1&page=1&sortBy=creationTimestamp"},
		{"Secrets", "secrets", "conditions=type=Opaque", "ascending=true" + first + "&type=Opaque"},
		{"Claims", "persistentvolumeclaims", "conditions=status=bound|lost,storageClassName=fast",
			"ascending=true" + first + "&status=bound|lost&storageClassName=fast"},
		{"Roles", "roles", "conditions=userfacing=true", "annotation=kubesphere.io/creator&ascending=true" + first},
		{"Master", "nodes", "conditions=role=master,zone=a", "ascending=true&labelSelector=zone=a,node-role.kubernetes.io/master" +
			"|zone=a,node-role.kubernetes.io/control-plane" + first},
		{"Jobs", "jobs", "conditions=includeCronJob=false", "ascending=true&cel=(!has(object.metadata.ownerReferences) ||" +
			" !object.metadata.ownerReferences.exists(o, o.kind == 'CronJob'))" + first},
		{"QuotesStayInTheText", "pods", `conditions=app.io/x~"%29 || true || ("\`,
			`ascending=true&cel=("app.io/x" in object.metadata.labels && object.metadata.labels["app.io/x"].contains("\") || true || (\"\\"))` + first},
		{"AnEmptyPartIsInEverything", "pods", "conditions=app~,label~", "ascending=true" + first},
		{"OthersAreIgnored", "pods", "names=a&cel=true&labelSelector=a&x=y", "ascending=true" + first},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			q, err := conditions.Parse(c.kind, "", values)
			if err != nil || said(q) != c.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, said(q), c.want)
			}
		})
	}
}

func TestOlderListsThatCantBeTranslatedAreRefused(t *testing.T) { // O28
	long := strings.Repeat("x", 254)
	for _, c := range []struct {
		kind, namespace, query string
		code                   int32
		says                   string
	}{
		{"widgets", "", "", 404, `no list of "widgets"`},
		{"router", "a", "", 404, `no list of "router"`},
		{"nodes", "a", "", 404, "not in namespaces"},
		{"workspaces", "a", "", 404, "not in namespaces"},
		{"pods", "", "conditions=name", 400, `"conditions"`},
		{"pods", "", "conditions==x", 400, `"conditions"`},
		{"pods", "", "conditions=a=b,,c=d", 400, `"conditions"`},
		{"pods", "", "conditions=name=", 400, "a value after name="},
		{"pods", "", "conditions=a=1,a=2", 400, "one condition a="},
		{"pods", "", "conditions=a=1&conditions=b=2", 400, "join conditions by commas"},
		{"pods", "", "conditions=a%20b=1", 400, "key of a label"},
		{"pods", "", "conditions=a'b~1", 400, "key of a label"},
		{"pods", "", "conditions=app=not%20a%20label", 400, "value of a label"},
		{"pods", "", "conditions=name~a%00b", 400, "printable text"},
		{"pods", "", "conditions=name~" + long, 400, "at most 253 bytes"},
		{"pods", "", "conditions=" + strings.TrimSuffix(strings.Repeat("a=b,", 17), ","), 400, "at most 16 conditions"},
		{"pods", "", "conditions=ownerKind=Deployment", 400, "together"},
		{"nodes", "", "conditions=role=a/b", 400, "role of a node"},
		{"nodes", "", "conditions=role=a|b", 400, "role of a node"},
		{"jobs", "", "conditions=includeCronJob=maybe", 400, "true or false"},
		{"roles", "", "conditions=userfacing=1", 400, "true or false"},
		{"pods", "", "orderBy=updateTime", 400, "createTime, name, startTime"},
		{"pods", "", "orderBy=.spec.x", 400, `"orderBy"`},
		{"pods", "", "reverse=down", 400, `"reverse"`},
		{"pods", "", "limit=ten", 400, `"limit"`},
		{"pods", "", "limit=-2", 400, `"limit"`},
		{"pods", "", "page=0", 400, `"page"`},
		{"pods", "", "paging=10", 400, `"paging"`},
		{"pods", "", "paging=limit%3D1%2Climit%3D2", 400, "one value of limit"},
		{"pods", "", "limit=1&paging=limit%3D2", 400, "one value of limit"},
		{"pods", "", "limit=10&start=5", 400, "a multiple of the limit"},
		{"pods", "", "start=-10", 400, "a multiple of the limit"},
		{"pods", "", "start=10&page=2", 400, "either start or page"},
		{"pods", "", "limit=99999999999999999999", 400, `"limit"`},
	} {
		values, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conditions.Parse(c.kind, c.namespace, values)
		if err == nil || web.Status(err).Code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s in %q: %.100s: %v, want %d %s", c.kind, c.namespace, c.query, err, c.code, c.says)
		}
	}
}

// FuzzConditions: whatever is sent is a query or an error, and no text of a client becomes a part of the syntax of an expression.
func FuzzConditions(f *testing.F) {
	for _, word := range hostile.Words() {
		f.Add("pods", "conditions=name~"+url.QueryEscape(word)+",x~"+url.QueryEscape(word))
	}
	f.Add("nodes", "conditions=role=master&paging=limit%3D2%2Cpage%3D1")
	f.Add("pods", "conditions=ownerKind=Deployment,ownerName=web")
	f.Fuzz(func(t *testing.T, kind, text string) {
		values := (&url.URL{RawQuery: text}).Query() // as of a request: without what can't be parsed
		q, err := conditions.Parse(kind, "", values)
		if err != nil {
			return
		}
		if len(q.Expression) > 4096 || q.Limit < query.All || q.Page < 1 {
			t.Errorf("%+v", q)
		}
	})
}
