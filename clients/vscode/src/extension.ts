import * as vscode from "vscode";

export function activate(context: vscode.ExtensionContext): void {
  const provider: vscode.WebviewViewProvider = {
    resolveWebviewView(view) {
      const dist = vscode.Uri.joinPath(context.extensionUri, "dist");
      view.webview.options = { enableScripts: true, localResourceRoots: [dist] };
      view.webview.html = `<!DOCTYPE html><html><body><div id="app">pi</div></body></html>`;
    },
  };
  context.subscriptions.push(vscode.window.registerWebviewViewProvider("pi.chat", provider));
}
