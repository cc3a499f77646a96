"""The zoo's keeper, `metaevo zoo`: lists its entries, shows a card, makes an entry from a run."""
