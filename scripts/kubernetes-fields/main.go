// Writes the fields of Kubernetes' messages, as Protobuf and as JSON have them, for the kinds
// that server/src/gateway/kinds/builtin.rs lists:
//
//	cd scripts/kubernetes-fields
//	go run . ../../server/src/gateway/kinds/builtin.rs > ../../server/src/gateway/messages/fields.txt
//
// All of it is read from the Go types of the modules in go.mod: names, numbers and types from
// their tags, what is required and how lists are merged from their markers. What a line means
// stands in server/src/gateway/messages/mod.rs.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"sort"
	"strings"

	apps "k8s.io/api/apps/v1"
	scale "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types whose JSON is not that of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[extensions.JSON]():                         "raw",
	reflect.TypeFor[extensions.JSONSchemaPropsOrArray]():       "schemaOrList",
	reflect.TypeFor[extensions.JSONSchemaPropsOrBool]():        "schemaOrFlag",
	reflect.TypeFor[extensions.JSONSchemaPropsOrStringArray](): "schemaOrTexts",
	reflect.TypeFor[intstr.IntOrString]():                      "intOrString",
	reflect.TypeFor[meta.Duration]():                           "duration",
	reflect.TypeFor[meta.FieldsV1]():                           "raw",
	reflect.TypeFor[meta.MicroTime]():                          "microTime",
	reflect.TypeFor[meta.Time]():                               "time",
	reflect.TypeFor[resource.Quantity]():                       "quantity",
	reflect.TypeFor[runtime.RawExtension]():                    "raw",
}

var (
	messages = map[string]reflect.Type{}
	docs     = map[string]map[string]string{}
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kubernetes-fields BUILTIN.RS")
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, coordination.AddToScheme,
		core.AddToScheme, discovery.AddToScheme, events.AddToScheme, networking.AddToScheme,
		policy.AddToScheme, rbac.AddToScheme, storage.AddToScheme, extensions.AddToScheme,
	} {
		check(add(scheme))
	}
	known := scheme.AllKnownTypes()
	for _, kind := range kinds(os.Args[1]) {
		found, ok := known[kind]
		if !ok {
			log.Fatalf("no type for %s", kind)
		}
		visit(found)
	}
	visit(reflect.TypeFor[scale.Scale]())
	visit(reflect.TypeFor[meta.DeleteOptions]())
	visit(reflect.TypeFor[extensions.JSONSchemaProps]())

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	names := make([]string, 0, len(messages))
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintln(out, "# Made by scripts/kubernetes-fields from the Go modules k8s.io/api,")
	fmt.Fprintln(out, "# k8s.io/apimachinery and k8s.io/apiextensions-apiserver (see its go.mod).")
	for _, name := range names {
		fmt.Fprintln(out, name)
		for _, line := range lines(messages[name]) {
			fmt.Fprintln(out, "", line)
		}
	}
}

// The kinds that the server has built in.
func kinds(path string) []schema.GroupVersionKind {
	text, err := os.ReadFile(path)
	check(err)
	pattern := regexp.MustCompile(`(?s)\b(group|version): "([^"]*)"|\b(?:namespaced|cluster)\(\s*"[^"]*",\s*"([^"]*)"`)
	var found []schema.GroupVersionKind
	var at schema.GroupVersionKind
	for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
		switch match[1] {
		case "group":
			at.Group = match[2]
		case "version":
			at.Version = match[2]
		default:
			at.Kind = match[3]
			found = append(found, at)
		}
	}
	return found
}

// A type's name, as OpenAPI documents have it: `io.k8s.api.core.v1.Pod`.
func nameOf(of reflect.Type) string {
	host, rest, _ := strings.Cut(of.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + of.Name()
}

func visit(of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		visit(of.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	if _, ok := special[of]; ok {
		return
	}
	name := nameOf(of)
	if _, ok := messages[name]; ok {
		return
	}
	messages[name] = of
	for i := range of.NumField() {
		if of.Field(i).Tag.Get("protobuf") != "" {
			visit(of.Field(i).Type)
		}
	}
}

func lines(of reflect.Type) []string {
	var all []string
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Type == reflect.TypeFor[meta.TypeMeta]() {
			// Around the message, not in it.
			all = append(all, "0 apiVersion string", "0 kind string")
			continue
		}
		tag := field.Tag.Get("protobuf")
		json := strings.Split(field.Tag.Get("json"), ",")
		if tag == "" || json[0] == "-" {
			continue
		}
		number := strings.Split(tag, ",")[1]
		if field.Anonymous && json[0] == "" {
			all = append(all, number+" - "+typeOf(of, field.Type))
			continue
		}
		all = append(all, strings.Join(append([]string{number, json[0], typeOf(of, field.Type)}, flags(of, field, json[1:])...), " "))
	}
	return all
}

func flags(of reflect.Type, field reflect.StructField, options []string) []string {
	var all []string
	omits := false
	for _, option := range options {
		omits = omits || option == "omitempty"
	}
	doc := doc(of, field.Name)
	optional := regexp.MustCompile(`(?m)^\+optional`).MatchString(doc)
	if field.Type.Kind() == reflect.Pointer {
		all = append(all, "pointer")
	} else if !omits {
		all = append(all, "zero")
	}
	if !omits && !optional {
		all = append(all, "required")
	}
	if kind := regexp.MustCompile(`(?m)^\+listType=(\w+)`).FindStringSubmatch(doc); kind != nil {
		var keys []string
		for _, key := range regexp.MustCompile(`(?m)^\+listMapKey=(\w+)`).FindAllStringSubmatch(doc, -1) {
			keys = append(keys, key[1])
		}
		list := "list=" + kind[1]
		if keys != nil {
			list += ":" + strings.Join(keys, ",")
		}
		all = append(all, list)
	}
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		patch := "patch=" + strategy
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			patch += ":" + key
		}
		all = append(all, patch)
	}
	return all
}

func typeOf(in, of reflect.Type) string {
	if name, ok := special[of]; ok {
		return name
	}
	switch of.Kind() {
	case reflect.Pointer:
		return typeOf(in, of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// Some named lists are messages of their own, with the list in it.
		if _, ok := reflect.PointerTo(of).MethodByName("Marshal"); ok {
			log.Fatalf("%s is a list and a message: not known how", of)
		}
		return "[]" + typeOf(in, of.Elem())
	case reflect.Map:
		if of.Key().Kind() != reflect.String {
			log.Fatalf("%s has keys that are no strings", of)
		}
		return "{}" + typeOf(in, of.Elem())
	case reflect.Struct:
		if of.PkgPath() == in.PkgPath() {
			return of.Name()
		}
		return nameOf(of)
	case reflect.Float64:
		return "double"
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return of.Kind().String()
	default:
		log.Fatalf("not known how to write %s", of)
		return ""
	}
}

// The comment of a field, of which only the markers are used.
func doc(of reflect.Type, field string) string {
	path := of.PkgPath()
	if docs[path] == nil {
		docs[path] = read(path)
	}
	return docs[path][of.Name()+"."+field]
}

func read(path string) map[string]string {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
	check(err)
	found := map[string]string{}
	packages, err := parser.ParseDir(token.NewFileSet(), string(bytes.TrimSpace(dir)), nil, parser.ParseComments)
	check(err)
	for _, parsed := range packages {
		ast.Inspect(parsed, func(node ast.Node) bool {
			named, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := named.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					for _, name := range field.Names {
						found[named.Name.Name+"."+name.Name] = field.Doc.Text()
					}
				}
			}
			return true
		})
	}
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
