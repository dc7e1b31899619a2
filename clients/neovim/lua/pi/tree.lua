---The tree of a session: shown as a list with its branches, to go on from another place, here or in a fork.
local M = {}

local plain = require("pi.plain")

---@class pi.TreeRow
---@field node pi_rpc.TreeNode
---@field depth integer how many forks lie above it
---@field active boolean on the active branch

---Rows from the root on. A node with one child is followed by it at the same depth; the children of a fork are one
---deeper, the active branch last, so that it reads on to the end. No recursion: branches are thousands of nodes long.
---@param nodes pi_rpc.TreeNode[]
---@param leaf string?
---@return pi.TreeRow[]
function M.rows(nodes, leaf)
  local by_id, children, active = {}, {}, {}
  for _, node in ipairs(nodes) do
    by_id[node.entryId] = node
  end
  for _, node in ipairs(nodes) do
    local parent = by_id[node.parentId] and node.parentId or "root"
    children[parent] = children[parent] or {}
    table.insert(children[parent], node)
  end
  local id = leaf
  while id and by_id[id] do
    active[id] = true
    id = by_id[id].parentId
  end
  local rows, stack = {}, {}
  local function push(parent, depth)
    local below = children[parent] or {}
    local deeper = #below > 1 and depth + 1 or depth
    -- The stack is emptied from its end: the active branch goes in first, and comes out last.
    for index = #below, 1, -1 do
      if active[below[index].entryId] then
        stack[#stack + 1] = { node = below[index], depth = deeper }
      end
    end
    for index = #below, 1, -1 do
      if not active[below[index].entryId] then
        stack[#stack + 1] = { node = below[index], depth = deeper }
      end
    end
  end
  push("root", 0)
  while #stack > 0 do
    local each = table.remove(stack)
    rows[#rows + 1] = { node = each.node, depth = each.depth, active = active[each.node.entryId] or false }
    push(each.node.entryId, each.depth)
  end
  return rows
end

---@param row pi.TreeRow
---@param leaf string?
---@return string
function M.line(row, leaf)
  local node = row.node
  local mark = node.entryId == leaf and "●" or row.active and "│" or " "
  local what = node.role or node.type
  return ("%s%s %s: %s%s"):format(
    ("  "):rep(math.min(row.depth, 12)),
    mark,
    what,
    plain.line(node.preview, 80),
    node.label and "  [" .. plain.line(node.label, 30) .. "]" or ""
  )
end

---All pages of the tree.
---@param session pi.Session
---@param callback fun(nodes: pi_rpc.TreeNode[], leaf: string?)
local function load(session, callback)
  local nodes = {}
  local function page(cursor)
    session:request("session/tree", { cursor = cursor }, function(err, result)
      if err then
        return session:complain(err)
      end
      vim.list_extend(nodes, result.nodes)
      if result.nextCursor then
        return page(result.nextCursor)
      end
      callback(nodes, result.leafId)
    end)
  end
  page(nil)
end

---A message that was gone back to: into the prompt, to be changed and sent.
local function give_back(session, text, attachments)
  require("pi.chat").open(session)
  require("pi.chat").give_back(session, text, attachments)
end

---@param session pi.Session
---@param params table of `branch`
local function branch(session, params)
  session:branch(params, function(err, result)
    if err then
      return session:complain(err)
    elseif result.cancelled then
      return vim.notify("pi: everything is as it was")
    elseif result.editorText then
      give_back(session, result.editorText, result.attachments)
    end
  end)
end

---@param session pi.Session
---@param params { entryId?: string, position?: "before"|"at" }
function M.fork(session, params)
  session:fork(params, function(err, result, fork)
    if err then
      return session:complain(err)
    end
    if result.text then
      give_back(fork, result.text, result.attachments)
    else
      require("pi.chat").open(fork)
    end
  end)
end

---@param session pi.Session
---@param node pi_rpc.TreeNode
local function act(session, node)
  local of_user = node.role == "user"
  local actions = {
    {
      text = "Go on from here",
      run = function()
        branch(session, { entryId = node.entryId })
      end,
    },
    {
      text = "Go on from here, with a summary of what is left behind",
      run = function()
        branch(session, { entryId = node.entryId, summarize = true })
      end,
    },
    {
      text = of_user and "Fork before it, into a session of its own" or "Fork here, into a session of its own",
      run = function()
        M.fork(session, { entryId = node.entryId, position = of_user and "before" or "at" })
      end,
    },
    {
      text = "Label it",
      run = function()
        vim.ui.input({ prompt = "Label: ", default = node.label }, function(label)
          if label then
            session:request("session/label", { entryId = node.entryId, label = label })
          end
        end)
      end,
    },
  }
  vim.ui.select(actions, {
    prompt = plain.line(node.preview, 60),
    kind = "pi.tree_action",
    format_item = function(action)
      return action.text
    end,
  }, function(action)
    if action then
      action.run()
    end
  end)
end

---Choose an entry, and what to do with it.
---@param session pi.Session
function M.choose(session)
  load(session, function(nodes, leaf)
    local rows = M.rows(nodes, leaf)
    if #rows == 0 then
      return vim.notify("pi: nothing has been said yet")
    end
    vim.ui.select(rows, {
      prompt = "Entries",
      kind = "pi.tree",
      format_item = function(row)
        return M.line(row, leaf)
      end,
    }, function(row)
      if row then
        act(session, row.node)
      end
    end)
  end)
end

return M
