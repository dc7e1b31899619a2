/** A permission request as a notification, for when no chat that shows the session is in sight. */
import vscode = require("vscode");

import type { PermissionChoice, PermissionRequestParams } from "../generated/protocol";
import { isTold, optionOf, subject } from "./permissions";
import { line, plain, quoted } from "./words";

/** What a person decided: an option, or to look at the chat. */
export type NoticeAnswer = { optionId: string; feedback?: string } | "show";

/** A notification cuts longer texts, and nobody should allow what they cannot read. */
const LONGEST = 300;

/** Ask; undefined when the notification was dismissed: the request waits on in the chat. */
export async function askByNotification(
  request: PermissionRequestParams,
  sessionName: string | undefined,
): Promise<NoticeAnswer | undefined> {
  const text = subject(request);
  const once = optionOf(request, "allow_once");
  const reject = optionOf(request, "reject_once");
  const isWhole = text.length <= LONGEST && isTold(request);
  const choices = [
    ...(once && isWhole ? [{ title: once.name, option: once }] : []),
    ...(reject ? [{ title: reject.name, option: reject }] : []),
    ...(isWhole ? [{ title: "More…", option: "more" as const }] : []),
    { title: "Show", option: "show" as const },
  ];
  const where = sessionName ? ` (${line(sessionName, 40)})` : "";
  const shown = isWhole ? plain(text) : line(request.title);
  const why = request.reason ? ` ${plain(request.reason)}` : "";
  const chosen = await vscode.window.showWarningMessage(`pi asks${where}: ${shown}.${why}`, ...choices);
  if (!chosen) return undefined;
  if (chosen.option === "show") return "show";
  if (chosen.option === "more") return chooseOption(request);
  return { optionId: chosen.option.id };
}

/** All options of a request, with what would be remembered; and to reject it with a word. */
export async function chooseOption(request: PermissionRequestParams): Promise<NoticeAnswer | undefined> {
  const items: (vscode.QuickPickItem & { option: PermissionChoice; asks?: boolean })[] = request.options.map(
    (option) => ({
      label: plain(option.name),
      option,
      ...(option.rule && { detail: quoted(option.rule) }),
    }),
  );
  const reject = optionOf(request, "reject_once");
  if (reject) items.push({ label: "Reject and say why…", option: reject, asks: true });
  const chosen = await vscode.window.showQuickPick(items, {
    title: "pi asks for permission",
    placeHolder: plain(subject(request)),
    ignoreFocusOut: true,
  });
  if (!chosen) return undefined;
  if (!chosen.asks) return { optionId: chosen.option.id };
  const feedback = await vscode.window.showInputBox({
    title: "What should pi do instead?",
    ignoreFocusOut: true,
  });
  return feedback === undefined ? undefined : { optionId: chosen.option.id, feedback };
}
