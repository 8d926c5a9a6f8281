// Renders Helm charts as Helm does, with Go's text/template and sprig, for machines without Helm. Reads a JSON list of cases
// from standard input and writes the list of what each became.
package main

import (
	"encoding/json"
	"log"
	"os"
)

type renderCase struct {
	Chart     string                 `json:"chart"`
	Release   string                 `json:"release"`
	Namespace string                 `json:"namespace"`
	Values    map[string]interface{} `json:"values"`
}

type rendered struct {
	// Text by the template's path, NOTES.txt included.
	Files map[string]string `json:"files"`
	// The merged values of every chart, by the chart's path in the tree.
	Values map[string]interface{} `json:"values"`
	Error  string                 `json:"error"`
}

func main() {
	var cases []renderCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		log.Fatal(err)
	}
	results := []rendered{}
	for _, each := range cases {
		result, err := render(each)
		if err != nil {
			result.Error = err.Error()
		}
		results = append(results, result)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		log.Fatal(err)
	}
}
