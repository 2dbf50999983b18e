package table

import (
	"net"
	"strings"
)

func services() *layout {
	return layoutOf("Name,Type,Cluster-IP,External-IP,Port(s),Age,Selector+", func(r *row, o value) {
		spec := o.at("spec")
		typ := spec.text("type")
		r.name(o)
		r.text(typ)
		r.or(spec.text("clusterIP"), none)
		r.text(externalAddress(typ, spec, o.at("status", "loadBalancer", "ingress")))
		var ports []string
		for _, p := range spec.at("ports").each() {
			text := p.text("port")
			if node := p.number("nodePort"); node > 0 {
				text += ":" + p.text("nodePort")
			}
			ports = append(ports, text+"/"+p.text("protocol"))
		}
		r.joined(ports, ",")
		r.age(o)
		r.text(spec.at("selector").pairs())
	})
}

// externalAddress returns at which addresses outside of the cluster a Service is reached.
func externalAddress(typ string, spec, balancer value) string {
	all := spec.at("externalIPs").texts()
	switch typ {
	case "ExternalName":
		return spec.text("externalName")
	case "LoadBalancer":
		all = append(ingressAddresses(balancer), all...)
		if len(all) == 0 {
			return "<pending>"
		}
	}
	if len(all) == 0 {
		return none
	}
	return strings.Join(all, ",")
}

// ingressAddresses returns the addresses or names of a load balancer, each once.
func ingressAddresses(v value) []string {
	var out []string
	for _, one := range v.each() {
		at := one.text("ip")
		if at == "" {
			at = one.text("hostname")
		}
		if at != "" {
			out = append(out, at)
		}
	}
	return out
}

func ingresses() *layout {
	return layoutOf("Name,Class,Hosts,Address,Ports,Age", func(r *row, o value) {
		spec := o.at("spec")
		r.name(o)
		r.or(spec.text("ingressClassName"), none)
		if hosts := spec.at("rules").texts("host"); len(hosts) == 0 {
			r.text("*")
		} else {
			r.text(few(hosts, 3))
		}
		r.text(strings.Join(ingressAddresses(o.at("status", "loadBalancer", "ingress")), ","))
		if spec.at("tls").length() > 0 {
			r.text("80, 443")
		} else {
			r.text("80")
		}
		r.age(o)
	})
}

func ingressClasses() *layout {
	return layoutOf("Name,Controller,Parameters,Age", func(r *row, o value) {
		p := o.at("spec", "parameters")
		r.name(o)
		r.text(o.text("spec", "controller"))
		text := none
		if p.has() {
			text = p.text("kind")
			if group := p.text("apiGroup"); group != "" {
				text += "." + group
			}
			text += "/" + p.text("name")
		}
		r.text(text)
		r.age(o)
	})
}

func networkPolicies() *layout {
	return layoutOf("Name,Pod-Selector,Age", func(r *row, o value) {
		r.name(o)
		r.selector(o.at("spec", "podSelector"))
		r.age(o)
	})
}

func endpoints() *layout {
	return layoutOf("Name,Endpoints,Age", func(r *row, o value) {
		var all []string
		for _, s := range o.at("subsets").each() {
			ports := s.at("ports").texts("port")
			addresses := s.at("addresses").texts("ip")
			if len(ports) == 0 {
				all = append(all, addresses...)
			}
			for _, p := range ports {
				for _, ip := range addresses {
					all = append(all, net.JoinHostPort(ip, p))
				}
			}
		}
		r.name(o)
		if len(all) == 0 {
			r.text(none)
		} else {
			r.text(few(all, 3))
		}
		r.age(o)
	})
}

func endpointSlices() *layout {
	return layoutOf("Name,AddressType,Ports,Endpoints,Age", func(r *row, o value) {
		var ports, addresses []string
		for _, p := range o.at("ports").each() {
			port := p.text("port")
			if port == "" {
				port = "*"
			}
			ports = append(ports, port)
		}
		for _, e := range o.at("endpoints").each() {
			addresses = append(addresses, e.at("addresses").texts()...)
		}
		r.name(o)
		r.text(o.text("addressType"))
		for _, all := range [...][]string{ports, addresses} {
			if len(all) == 0 {
				r.text(unset)
			} else {
				r.text(few(all, 3))
			}
		}
		r.age(o)
	})
}
