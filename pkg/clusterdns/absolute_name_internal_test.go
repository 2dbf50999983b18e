package clusterdns

import "testing"

// X6: what a Service is called is no name in another namespace.
func TestX6AServiceIsDialledByItsAbsoluteName(t *testing.T) {
	for _, c := range []struct{ domain, address, want string }{
		{"cluster.local", "shop.extension-shop.svc:80", "shop.extension-shop.svc.cluster.local.:80"},
		{"cluster.local", "Shop.Extension-Shop.SVC:80", "Shop.Extension-Shop.SVC.cluster.local.:80"},
		{"cluster.local", "shop-0.shop.x.svc:80", "shop-0.shop.x.svc.cluster.local.:80"},
		{"cluster.local", "shop.x.svc.cluster.local:80", "shop.x.svc.cluster.local.:80"},
		{"k8s", "shop.x.svc:443", "shop.x.svc.k8s.:443"},
		{"cluster.local", "shop.x.svc.:80", "shop.x.svc.:80"},
		{"cluster.local", "shop.x.svc.cluster.local.:80", "shop.x.svc.cluster.local.:80"},
		{"cluster.local", "shop.x:80", "shop.x:80"},
		{"cluster.local", "svc:80", "svc:80"},
		{"cluster.local", "shop.example.com:443", "shop.example.com:443"},
		{"cluster.local", "10.0.0.1:80", "10.0.0.1:80"},
		{"cluster.local", "[2001:db8::1]:80", "[2001:db8::1]:80"},
		{"cluster.local", "no address", "no address"},
		{"", "shop.extension-shop.svc:80", "shop.extension-shop.svc:80"},
	} {
		if got := absolute(c.address, c.domain); got != c.want {
			t.Errorf("%s in %q: %s, want %s", c.address, c.domain, got, c.want)
		}
	}
}

func TestTheDomainOfTheClusterIsThatOfItsSearchList(t *testing.T) {
	const pod = "nameserver 10.96.0.10\nsearch kubesphere-system.svc.cluster.local svc.cluster.local cluster.local corp.example\noptions ndots:5\n"
	for conf, want := range map[string]string{
		pod: "cluster.local",
		"search\tx.svc.K8s.Example.  svc.K8s.Example. K8s.Example.": "k8s.example",
		"search svc.former\nsearch x.svc.k8s svc.k8s k8s":           "k8s",
		"search svc.former\nsearch corp.example\n":                  "",
		"# search svc.cluster.local\nsearch corp.example":           "",
		"domain svc.cluster.local":                                  "",
		"search":                                                    "",
		"":                                                          "",
	} {
		if got := domainOf(conf); got != want {
			t.Errorf("%q: %q, want %q", conf, got, want)
		}
	}
}
