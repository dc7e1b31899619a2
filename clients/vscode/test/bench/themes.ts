/** A few of VS Code's theme colours, so that the page looks as it does there. */

const DARK: Record<string, string> = {
  foreground: "#cccccc",
  descriptionForeground: "#9d9d9d",
  "editor-background": "#1f1f1f",
  "sideBar-background": "#181818",
  "input-background": "#313131",
  "input-foreground": "#cccccc",
  "input-border": "#3c3c3c",
  "input-placeholderForeground": "#989898",
  "button-background": "#0078d4",
  "button-foreground": "#ffffff",
  "button-hoverBackground": "#026ec1",
  "button-secondaryBackground": "#313131",
  "button-secondaryForeground": "#cccccc",
  "button-secondaryHoverBackground": "#3c3c3c",
  "icon-foreground": "#cccccc",
  focusBorder: "#0078d4",
  "widget-border": "#313131",
  "panel-border": "#2b2b2b",
  "widget-shadow": "rgba(0,0,0,0.36)",
  "textLink-foreground": "#4daafc",
  "textLink-activeForeground": "#4daafc",
  "textPreformat-background": "#3c3c3c",
  "textPreformat-foreground": "#d0d0d0",
  "textCodeBlock-background": "#2b2b2b",
  "editorWidget-background": "#202020",
  "list-activeSelectionBackground": "#04395e",
  "list-activeSelectionForeground": "#ffffff",
  "list-hoverBackground": "#2a2d2e",
  errorForeground: "#f85149",
  "editorWarning-foreground": "#cca700",
  "progressBar-background": "#0078d4",
  "charts-green": "#89d185",
  "charts-purple": "#b180d7",
  "charts-blue": "#3794ff",
  "charts-orange": "#d18616",
  "diffEditor-insertedLineBackground": "rgba(155,185,85,0.2)",
  "diffEditor-removedLineBackground": "rgba(255,0,0,0.2)",
};

const LIGHT: Record<string, string> = {
  foreground: "#3b3b3b",
  descriptionForeground: "#6a6a6a",
  "editor-background": "#ffffff",
  "sideBar-background": "#f8f8f8",
  "input-background": "#ffffff",
  "input-foreground": "#3b3b3b",
  "input-border": "#cecece",
  "input-placeholderForeground": "#767676",
  "button-background": "#005fb8",
  "button-foreground": "#ffffff",
  "button-hoverBackground": "#0258a8",
  "button-secondaryBackground": "#e5e5e5",
  "button-secondaryForeground": "#3b3b3b",
  "button-secondaryHoverBackground": "#cccccc",
  "icon-foreground": "#3b3b3b",
  focusBorder: "#005fb8",
  "widget-border": "#e5e5e5",
  "panel-border": "#e5e5e5",
  "widget-shadow": "rgba(0,0,0,0.16)",
  "textLink-foreground": "#005fb8",
  "textLink-activeForeground": "#005fb8",
  "textPreformat-background": "rgba(0,0,0,0.07)",
  "textPreformat-foreground": "#3b3b3b",
  "textCodeBlock-background": "#f0f0f0",
  "editorWidget-background": "#f8f8f8",
  "list-activeSelectionBackground": "#e8e8e8",
  "list-activeSelectionForeground": "#000000",
  "list-hoverBackground": "#f2f2f2",
  errorForeground: "#c72e0f",
  "editorWarning-foreground": "#bf8803",
  "progressBar-background": "#005fb8",
  "charts-green": "#388a34",
  "charts-purple": "#652d90",
  "charts-blue": "#1a85ff",
  "charts-orange": "#b26a00",
  "diffEditor-insertedLineBackground": "rgba(155,185,85,0.2)",
  "diffEditor-removedLineBackground": "rgba(255,0,0,0.13)",
};

const CONTRAST: Record<string, string> = {
  foreground: "#ffffff",
  descriptionForeground: "rgba(255,255,255,0.85)",
  "editor-background": "#000000",
  "sideBar-background": "#000000",
  "input-background": "#000000",
  "input-foreground": "#ffffff",
  "input-border": "#6fc3df",
  "button-foreground": "#ffffff",
  "button-border": "#6fc3df",
  "button-secondaryBackground": "#000000",
  "icon-foreground": "#ffffff",
  contrastBorder: "#6fc3df",
  focusBorder: "#f38518",
  "widget-border": "#6fc3df",
  "textLink-foreground": "#21a6ff",
  "textLink-activeForeground": "#21a6ff",
  "textPreformat-background": "#ffffff",
  "textPreformat-foreground": "#000000",
  "textCodeBlock-background": "#000000",
  "editorWidget-background": "#0c141f",
  errorForeground: "#f48771",
  "editorWarning-foreground": "#ffd370",
  "progressBar-background": "#6fc3df",
  "charts-green": "#89d185",
  "charts-purple": "#b180d7",
  "charts-blue": "#3794ff",
  "charts-orange": "#d18616",
};

const THEMES: Record<string, [Record<string, string>, string]> = {
  dark: [DARK, "vscode-dark"],
  light: [LIGHT, "vscode-light"],
  contrast: [CONTRAST, "vscode-high-contrast"],
};

export function setTheme(name: string): void {
  const [colors, bodyClass] = THEMES[name] ?? [DARK, "vscode-dark"];
  const { style } = document.documentElement;
  for (const [key, value] of Object.entries(colors)) style.setProperty(`--vscode-${key}`, value);
  style.setProperty("--vscode-font-size", "13px");
  style.setProperty("--vscode-font-family", "system-ui, Ubuntu, 'Droid Sans', sans-serif");
  style.setProperty("--vscode-editor-font-family", "'Droid Sans Mono', 'DejaVu Sans Mono', monospace");
  style.setProperty("--vscode-editor-font-size", "13px");
  document.body.className = bodyClass;
  document.body.style.background = colors["sideBar-background"] ?? "";
}
