package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kshare/kip1289"
)

func kip1289Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "kip1289",
		Short: "What KIP-1289, transactional acknowledgements of share groups, is undecided about",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(&cobra.Command{
		Use:   "switches",
		Short: "List the switches of KIP-1289: what each side does, and who says it. The first side is the default",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for i := range kip1289.List {
				s := &kip1289.List[i]
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", s.Name, s.Subject); err != nil {
					return err
				}
				for _, side := range s.Sides {
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "  %s: %s (%s)\n", side.Value, side.Does, side.Says); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
	return c
}
