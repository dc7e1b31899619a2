/** What unit tests import as "vscode": as little of it as they need. */
export const placeholder = true;
