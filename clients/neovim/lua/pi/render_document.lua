---The lines of a chat as blocks, and what must be changed in a buffer that shows them.
---
---Owns where each block stands. Blocks are added at the end; each grows at the end of its own body, also where
---others follow it. What a change costs is the text that is new. Pure: a buffer is changed by `pi.chat_buffer`.
local text = require("pi.render_text")

---@class pi.Block
---@field n integer its number
---@field kind string
---@field lead integer empty lines above it
---@field head string[]
---@field tail string[]
---@field body_rows integer
---@field body_column integer bytes of the body's last line
---@field fold? boolean it can be folded, and stands close to others that can
---@field folded? boolean whether its fold is to be closed; nil while it has none
---@field gone? boolean forgotten
---@field [string] any what blocks of its kind have besides
---@field held? string line ends that have come and are not drawn yet

---@class pi.Edit
---@field row integer
---@field column? integer nil where whole lines are put before the row
---@field end_row? integer
---@field end_column? integer
---@field lines string[]

---@class pi.Changes
---@field cleared? boolean the buffer is to be emptied first
---@field edits pi.Edit[] to be done one after the other; a column of -1 is a line's end
---@field touched table<pi.Block, true> whose marks are to be drawn
---@field folds table<pi.Block, true> whose folds are to be made

---@class pi.Document
---@field blocks pi.Block[]
---@field rows integer
local Document = {}
Document.__index = Document

function Document.new()
  local self = setmetatable({ blocks = {}, rows = 0 }, Document)
  self:_begin()
  return self
end

function Document:_begin()
  self.edits, self.touched, self.folds, self.pieces, self.growing = {}, {}, {}, {}, nil
end

local function rows_of(block)
  return block.lead + #block.head + block.body_rows + #block.tail
end

---The row (from 0) of a block's first line, the empty ones above it not counted.
---Counts from the end: what changes is near it.
---@param block pi.Block
function Document:row(block)
  local row = self.rows
  for i = #self.blocks, 1, -1 do
    row = row - rows_of(self.blocks[i])
    if self.blocks[i] == block then
      return row + block.lead
    end
  end
  error("a block of another document")
end

---How many rows it has, the empty ones above it not counted.
function Document.height(block)
  return rows_of(block) - block.lead
end

---The block at a row, if there is one.
---@param row integer
---@return pi.Block? block
---@return integer? first its first row
function Document:at(row)
  local below = self.rows
  for i = #self.blocks, 1, -1 do
    local block = self.blocks[i]
    below = below - rows_of(block)
    if row >= below then
      return block, below + block.lead
    end
  end
end

local function write(self, row, column, end_row, end_column, lines)
  self.edits[#self.edits + 1] =
    { row = row, column = column, end_row = end_row, end_column = end_column, lines = lines }
end

local function settle(self)
  local block = self.growing
  if not block then
    return
  end
  local added = table.concat(self.pieces)
  self.growing, self.pieces = nil, {}
  local lines = text.lines(added, block.body_column)
  local row = self:row(block) + #block.head + block.body_rows - 1
  write(self, row, block.body_column, row, block.body_column, lines)
  block.body_column = #lines[#lines] + (#lines == 1 and block.body_column or 0)
  block.body_rows = block.body_rows + #lines - 1
  self.rows = self.rows + #lines - 1
end

---How many lines a block's body has, those included that were added just now.
---@param block pi.Block
---@return integer
function Document:body_height(block)
  settle(self)
  return block.body_rows
end

---@param block pi.Block
local function content(block, lines)
  local all = {}
  vim.list_extend(all, block.head)
  vim.list_extend(all, lines)
  vim.list_extend(all, block.tail)
  return all
end

---Add a block at the end. `body` is its text, nil for none.
---@param block table its `kind`, `head`, `tail`, `fold`, and what others keep with it
---@param body? string
---@return pi.Block
function Document:add(block, body)
  settle(self)
  local previous = self.blocks[#self.blocks]
  local dense = previous and previous.fold and block.fold
  local lines = body and text.lines((body:gsub("[\r\n]+$", ""))) or {}
  block.n = #self.blocks + 1
  block.lead = previous and not dense and 1 or 0
  block.head, block.tail = block.head or {}, block.tail or {}
  block.body_rows, block.body_column = #lines, #(lines[#lines] or "")
  local new = content(block, lines)
  if block.lead == 1 then
    table.insert(new, 1, "")
  end
  if previous then
    -- The line above is not touched: its fold would end before it.
    write(self, self.rows, nil, nil, nil, new)
  else
    write(self, 0, 0, 0, 0, new)
  end
  self.blocks[block.n] = block
  self.rows = self.rows + rows_of(block)
  self:touch(block)
  return block
end

---Add to a block's body, which must be there. Line ends wait for what comes after them: no empty lines end a body.
---@param block pi.Block
---@param added string
function Document:append(block, added)
  assert(block.body_rows > 0, "a body to add to")
  if block.held then
    added = block.held .. added
  end
  if added:find("\r", 1, true) then
    added = added:gsub("\r\n", "\n")
  end
  local stop = #added
  while stop > 0 and (added:byte(stop) == 10 or added:byte(stop) == 13) do
    stop = stop - 1
  end
  block.held = stop < #added and added:sub(stop + 1) or nil
  if stop == 0 then
    return
  end
  if self.growing ~= block then
    settle(self)
    self.growing = block
  end
  self.pieces[#self.pieces + 1] = block.held and added:sub(1, stop) or added
end

---Draw a block anew, with other lines around its body, and another body.
---@param block pi.Block
---@param new {head?: string[], tail?: string[]}
---@param body? string
function Document:rewrite(block, new, body)
  settle(self)
  block.held = nil
  local row, height = self:row(block), self.height(block)
  local lines = body and text.lines((body:gsub("[\r\n]+$", ""))) or {}
  block.head, block.tail = new.head or block.head, new.tail or block.tail
  block.body_rows, block.body_column = #lines, #(lines[#lines] or "")
  local all = content(block, lines)
  assert(#all > 0, "a block has a line")
  write(self, row, 0, row + height - 1, -1, all)
  self.rows = self.rows - height + #all
  self:touch(block)
  if block.folded ~= nil then
    self:fold(block, block.folded)
  end
end

---Give a block another first line.
---@param block pi.Block
---@param title string
function Document:retitle(block, title)
  settle(self)
  local row = self:row(block)
  block.head[1] = title
  write(self, row, 0, row, -1, { title })
  self:touch(block)
end

---Its marks must be drawn again.
function Document:touch(block)
  self.touched[block] = true
end

---It is to be a fold, closed or open.
---@param closed boolean
function Document:fold(block, closed)
  block.folded = closed
  self.folds[block] = true
end

---Forget everything; what is added next is drawn in an empty buffer.
function Document:reset()
  for _, block in ipairs(self.blocks) do
    block.gone = true
  end
  self.blocks, self.rows = {}, 0
  self:_begin()
  self.cleared = true
end

---What has changed since the last time; nil for nothing.
---@return pi.Changes?
function Document:take()
  settle(self)
  if not self.cleared and #self.edits == 0 and not next(self.touched) and not next(self.folds) then
    return nil
  end
  local changes = { cleared = self.cleared, edits = self.edits, touched = self.touched, folds = self.folds }
  self.cleared = nil
  self:_begin()
  return changes
end

return Document
