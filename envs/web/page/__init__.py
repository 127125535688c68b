"""Any page, or folder of pages, as a task with a check of success."""
