package gateway

import "fmt"

// Backend is what gateways are made by: a class of gateway.networking.k8s.io, or templates; nothing where neither is configured.
type Backend struct {
	// ClassName is the name of a GatewayClass.
	ClassName string
	// Template is what gateways are made from.
	Template *Template
}

// NewBackend returns the backend of a configuration. Its error names the key.
func NewBackend(className, templates string) (Backend, error) {
	if templates == "" {
		return Backend{ClassName: className}, nil
	}
	t, err := Load(templates)
	if err != nil {
		return Backend{}, fmt.Errorf("gateway.templates: %s: %w", templates, err)
	}
	return Backend{Template: t}, nil
}

// Configured reports whether gateways can be made.
func (b Backend) Configured() bool { return b.ClassName != "" || b.Template != nil }

// Open returns what a project may choose. A GatewayClass leaves nothing open: its Gateways are reached as the class says.
func (b Backend) Open() Open {
	if b.Template != nil {
		return b.Template.Open()
	}
	return Open{Type: true}
}
