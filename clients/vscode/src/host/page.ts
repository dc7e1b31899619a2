/** The page of a chat: our script and styles, and nothing from anywhere else. */
import { randomBytes } from "node:crypto";

import vscode = require("vscode");

/** Where a page may load from. */
export function resourceRoots(extension: vscode.Uri): vscode.Uri[] {
  return [vscode.Uri.joinPath(extension, "dist")];
}

/** The page. Its policy lets one script run, which is named by a number used once. */
export function page(webview: vscode.Webview, extension: vscode.Uri): string {
  const nonce = randomBytes(18).toString("base64");
  const at = (name: string) => webview.asWebviewUri(vscode.Uri.joinPath(extension, "dist", name)).toString();
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src ${webview.cspSource}`,
    `font-src ${webview.cspSource}`,
    `img-src ${webview.cspSource} data: blob:`,
    "form-action 'none'",
    "base-uri 'none'",
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${at("webview.css")}">
<title>pi</title>
</head>
<body>
<div id="app"></div>
<script nonce="${nonce}" src="${at("webview.js")}"></script>
</body>
</html>`;
}
