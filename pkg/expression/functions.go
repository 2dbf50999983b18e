package expression

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	kubecel "k8s.io/apiserver/pkg/cel"
)

// quantities are the functions on quantities that Kubernetes has, under their names. They are implemented again because the library takes
// a minute to parse a short quantity such as 1e-99999999.
func quantities() cel.EnvOption {
	q := kubecel.QuantityType
	both := []*cel.Type{q, q}
	compare := func(id string, result *cel.Type, f func(c int) ref.Val) cel.FunctionOpt {
		return cel.MemberOverload(id, both, result, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			x, y, err := pair(a, b)
			if err != nil {
				return err
			}
			return f(x.Cmp(*y))
		}))
	}
	return options(
		cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, q, cel.UnaryBinding(quantityOf))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				return types.Bool(!types.IsError(quantityOf(v)))
			}))),
		cel.Function("isGreaterThan", compare("quantity_is_greater_than", cel.BoolType, func(c int) ref.Val { return types.Bool(c > 0) })),
		cel.Function("isLessThan", compare("quantity_is_less_than", cel.BoolType, func(c int) ref.Val { return types.Bool(c < 0) })),
		cel.Function("compareTo", compare("quantity_compare_to", cel.IntType, func(c int) ref.Val { return types.Int(c) })),
		cel.Function("add", cel.MemberOverload("quantity_add", both, q, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			return sum(a, b, (*resource.Quantity).Add)
		}))),
		cel.Function("sub", cel.MemberOverload("quantity_sub", both, q, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			return sum(a, b, (*resource.Quantity).Sub)
		}))),
		one("asApproximateFloat", "quantity_get_float", cel.DoubleType,
			func(x *resource.Quantity) ref.Val { return types.Double(x.AsApproximateFloat64()) }),
		one("sign", "quantity_sign", cel.IntType, func(x *resource.Quantity) ref.Val { return types.Int(x.Sign()) }),
		one("isInteger", "quantity_is_integer", cel.BoolType, func(x *resource.Quantity) ref.Val {
			_, ok := x.AsInt64()
			return types.Bool(ok)
		}),
		one("asInteger", "quantity_get_int", cel.IntType, func(x *resource.Quantity) ref.Val {
			n, ok := x.AsInt64()
			if !ok {
				return types.NewErr("the quantity is no whole number of 64 bits")
			}
			return types.Int(n)
		}),
	)
}

// one declares a function of one quantity.
func one(name, id string, result *cel.Type, f func(*resource.Quantity) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload(id, []*cel.Type{kubecel.QuantityType}, result, cel.UnaryBinding(func(v ref.Val) ref.Val {
		x, ok := v.Value().(*resource.Quantity)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return f(x)
	})))
}

func pair(a, b ref.Val) (x, y *resource.Quantity, err ref.Val) {
	x, ok := a.Value().(*resource.Quantity)
	if !ok {
		return nil, nil, types.MaybeNoSuchOverloadErr(a)
	}
	if y, ok = b.Value().(*resource.Quantity); !ok {
		return nil, nil, types.MaybeNoSuchOverloadErr(b)
	}
	return x, y, nil
}

func sum(a, b ref.Val, f func(x *resource.Quantity, y resource.Quantity)) ref.Val {
	x, y, err := pair(a, b)
	if err != nil {
		return err
	}
	out := x.DeepCopy()
	f(&out, *y)
	return kubecel.Quantity{Quantity: &out}
}

// maxQuantity is longer than any meaningful quantity.
const maxQuantity = 48

func quantityOf(v ref.Val) ref.Val {
	s, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	text := string(s)
	if at := strings.LastIndexAny(text, "eE"); len(text) > maxQuantity || at >= 0 && len(strings.TrimLeft(text[at+1:], "+-0")) > 2 {
		return types.NewErr("the quantity is too long, or its exponent too large")
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return types.WrapErr(err)
	}
	return kubecel.Quantity{Quantity: &q}
}

// maxParts is how many texts split returns at most.
const maxParts = 10_000

// texts are functions on texts whose result is at most as long as their arguments.
func texts() cel.EnvOption {
	s := []*cel.Type{cel.StringType}
	text := func(name, id string, f func(string) string) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, s, cel.StringType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			in, ok := v.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			return types.String(f(string(in)))
		})))
	}
	return options(
		text("lowerAscii", "string_lower_ascii", func(s string) string { return mapASCII(s, 'A', 'Z', 'a'-'A') }),
		text("upperAscii", "string_upper_ascii", func(s string) string { return mapASCII(s, 'a', 'z', -('a' - 'A')) }),
		text("trim", "string_trim", strings.TrimSpace),
		cel.Function("split", cel.MemberOverload("string_split_string", []*cel.Type{cel.StringType, cel.StringType}, cel.ListType(cel.StringType),
			cel.BinaryBinding(func(v, sep ref.Val) ref.Val {
				in, ok := v.(types.String)
				by, ok2 := sep.(types.String)
				if !ok || !ok2 {
					return types.MaybeNoSuchOverloadErr(v)
				}
				parts := strings.SplitN(string(in), string(by), maxParts+1)
				if len(parts) > maxParts {
					return types.NewErr("more than %d parts", maxParts)
				}
				return types.NewStringList(types.DefaultTypeAdapter, parts)
			}))),
	)
}

func mapASCII(s string, from, to, add rune) string {
	return strings.Map(func(r rune) rune {
		if r >= from && r <= to {
			return r + add
		}
		return r
	}, s)
}

func options(all ...cel.EnvOption) cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		var err error
		for _, o := range all {
			if e, err = o(e); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}
