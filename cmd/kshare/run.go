package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kshare/scenario"
)

func runCommand() *cobra.Command {
	var bootstrap string
	var rewrite, print bool
	c := &cobra.Command{
		Use:   "run FILE...",
		Short: "run scenarios in the process, or against a Kafka on the network",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			failed := 0
			for i, name := range files {
				f, err := readScenario(name)
				if err != nil {
					return err
				}
				var target scenario.Target = scenario.NewLocal()
				o := scenario.Options{}
				if bootstrap != "" {
					target = scenario.NewRemote(bootstrap)
					o.Prefix = fmt.Sprintf("run%d-%d-", os.Getpid(), i)
				}
				r, err := scenario.Run(f, target, o)
				if rewrite || print {
					if print {
						fmt.Print(string(r.Rewritten()))
					} else if err == nil {
						if err := os.WriteFile(name, r.Rewritten(), 0o644); err != nil {
							return err
						}
					}
				}
				if err != nil {
					return err
				}
				failed += r.Failed()
				fmt.Print(r.Differences())
			}
			if failed > 0 && !rewrite {
				return errors.New(fmt.Sprint(failed, " blocks fail"))
			}
			return nil
		},
	}
	c.Flags().StringVar(&bootstrap, "bootstrap", "", "host:port of a Kafka to run against")
	c.Flags().BoolVar(&rewrite, "rewrite", false, "write what was shown into the files")
	c.Flags().BoolVar(&print, "print", false, "print what was shown")
	return c
}

func readScenario(name string) (*scenario.File, error) {
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	return scenario.Parse(strings.TrimPrefix(name, "./"), text)
}
