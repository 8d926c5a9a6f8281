package main

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	yaml "gopkg.in/yaml.v2"
)

// functions are those of sprig without the ones that Helm removes, and with the ones that it adds.
func functions(set *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	all["include"] = include(set)
	all["tpl"] = tpl(set)
	all["required"] = required
	all["fail"] = func(message string) (string, error) { return "", errors.New(message) }
	all["lookup"] = func(string, string, string, string) map[string]interface{} { return map[string]interface{}{} }
	all["toYaml"] = toYaml
	all["toJson"] = func(value interface{}) string {
		text, _ := json.Marshal(value)
		return string(text)
	}
	all["fromYaml"] = func(text string) map[string]interface{} {
		value, err := fromYaml([]byte(text))
		table, isTable := value.(map[string]interface{})
		if err != nil || !isTable {
			return map[string]interface{}{"Error": "not a map"}
		}
		return table
	}
	all["fromYamlArray"] = func(text string) []interface{} {
		value, _ := fromYaml([]byte(text))
		list, _ := value.([]interface{})
		return list
	}
	all["fromJson"] = all["fromYaml"]
	all["fromJsonArray"] = all["fromYamlArray"]
	return all
}

// toYaml converts through JSON, as sigs.k8s.io/yaml does, so that 1000000 stays an integer.
func toYaml(value interface{}) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var plain interface{}
	if err := yaml.Unmarshal(text, &plain); err != nil {
		return "", err
	}
	out, err := yaml.Marshal(plain)
	return strings.TrimSuffix(string(out), "\n"), err
}

// fromYaml returns the same types as JSON: numbers are float64, as Helm passes them to templates.
func fromYaml(text []byte) (interface{}, error) {
	var value interface{}
	if err := yaml.UnmarshalStrict(text, &value); err != nil {
		return nil, err
	}
	asJson, err := json.Marshal(withTextKeys(value))
	if err != nil {
		return nil, err
	}
	var plain interface{}
	err = json.Unmarshal(asJson, &plain)
	return plain, err
}

func withTextKeys(value interface{}) interface{} {
	switch value := value.(type) {
	case map[interface{}]interface{}:
		table := map[string]interface{}{}
		for key, each := range value {
			table[key.(string)] = withTextKeys(each)
		}
		return table
	case []interface{}:
		for i, each := range value {
			value[i] = withTextKeys(each)
		}
	}
	return value
}

func readYaml(file string) (map[string]interface{}, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	value, err := fromYaml(text)
	if err != nil {
		return nil, err
	}
	table, _ := value.(map[string]interface{})
	if table == nil {
		table = map[string]interface{}{}
	}
	return table, nil
}

// files are a chart's other files, as .Files returns them.
type files map[string][]byte

func (f files) Get(name string) string { return string(f[name]) }

func (f files) GetBytes(name string) []byte { return f[name] }

func (f files) Lines(name string) []string {
	return strings.Split(strings.TrimSuffix(f.Get(name), "\n"), "\n")
}

func (f files) Glob(pattern string) files {
	found := files{}
	for name, text := range f {
		if matched, _ := path.Match(pattern, name); matched {
			found[name] = text
		}
	}
	return found
}

func (f files) AsConfig() (string, error) {
	table := map[string]interface{}{}
	for name, text := range f {
		table[path.Base(name)] = string(text)
	}
	return toYaml(table)
}
