// Renders Helm charts as Helm does, with Go's text/template and sprig, for machines without Helm.
// Reads a JSON list of cases from standard input and writes a list of the results.
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
	// Text by template path, including NOTES.txt.
	Files map[string]string `json:"files"`
	// The merged values of each chart, by its path in the tree.
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
