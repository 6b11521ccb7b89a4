"""Reports: `build` makes a documented JSON object from the store, `text` makes a page of it."""
