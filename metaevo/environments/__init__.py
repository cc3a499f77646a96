"""What `metaevo envs` lists: the environments that there are."""
