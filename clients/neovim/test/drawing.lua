---Drawing a view into a list of lines, for tests: what a buffer would hold.
local M = {}

---Do to a list of lines what is to be done to a buffer.
local function edit(lines, changes)
  if changes.cleared then
    lines = { "" }
  end
  for _, each in ipairs(changes.edits) do
    local new = vim.list_extend({}, each.lines)
    if each.column then
      local first, last = lines[each.row + 1], lines[each.end_row + 1]
      new[1] = (each.column == -1 and first or first:sub(1, each.column)) .. new[1]
      new[#new] = new[#new] .. (each.end_column == -1 and "" or last:sub(each.end_column + 1))
    end
    local all = vim.list_slice(lines, 1, each.row)
    vim.list_extend(all, new)
    lines = vim.list_extend(all, lines, (each.end_row and each.end_row + 1 or each.row) + 1)
  end
  return lines
end

---The lines after some events, drawn after each `step` of them.
function M.drawn(events, step, view)
  view = view or require("pi.render").new()
  local lines = { "" }
  for i, event in ipairs(events) do
    view:apply(event)
    local changes = (i % step == 0 or i == #events) and view:take()
    if changes then
      lines = edit(lines, changes)
    end
  end
  return lines, view
end

function M.shows(events, expected)
  local lines = M.drawn(events, 1)
  return lines, vim.split(vim.trim(expected), "\n", { plain = true })
end

return M
