//! One opcode at a time.

use super::{Machine, Result};
use crate::pytorch::CheckpointError;
use crate::pytorch::object::{Object, Value};

impl<'a> Machine<'a> {
    /// Executes one opcode; named in comments as in Python's `pickletools`.
    pub(super) fn step(&mut self, code: u8) -> Result<()> {
        match code {
            0x80 => drop(self.take(1)?),               // PROTO
            0x95 => drop(self.take(8)?),               // FRAME
            b'(' => self.marks.push(self.stack.len()), // MARK
            b'0' => drop(self.pop()?),                 // POP
            b'1' => drop(self.pop_to_mark()?),         // POP_MARK
            b'2' => {
                let top = self.pop()?; // DUP
                self.stack.extend([top, top]);
            }
            b'N' => self.stack.push(Value::None),        // NONE
            0x88 => self.stack.push(Value::Bool(true)),  // NEWTRUE
            0x89 => self.stack.push(Value::Bool(false)), // NEWFALSE
            b'J' => {
                let number = self.number::<4>()? as u32 as i32; // BININT
                self.stack.push(Value::Int(number.into()));
            }
            b'K' => {
                let number = self.number::<1>()?; // BININT1
                self.stack.push(Value::Int(number as i64));
            }
            b'M' => {
                let number = self.number::<2>()?; // BININT2
                self.stack.push(Value::Int(number as i64));
            }
            0x8a | 0x8b => {
                let short = code == 0x8a; // LONG1, LONG4
                let count = if short {
                    self.number::<1>()?
                } else {
                    self.number::<4>()?
                };
                let bytes = self.take(count)?;
                self.stack.push(self.long(bytes));
            }
            b'I' | b'L' => {
                let value = match self.line()? {
                    b"00" => Value::Bool(false), // INT, LONG
                    b"01" => Value::Bool(true),
                    digits => Value::Int(self.ascii(digits)?),
                };
                self.stack.push(value);
            }
            b'F' => {
                let digits = self.line()?; // FLOAT
                self.ascii::<f64>(digits)?;
                self.stack.push(Value::Float);
            }
            b'G' => {
                self.take(8)?; // BINFLOAT
                self.stack.push(Value::Float);
            }
            b'X' | b'T' | b'B' => self.counted::<4>()?, // BINUNICODE, BINSTRING, BINBYTES
            0x8c | b'U' | b'C' => self.counted::<1>()?, // SHORT_ of the same
            0x8d | 0x8e | 0x96 => self.counted::<8>()?, // BINUNICODE8, BINBYTES8, BYTEARRAY8
            b'V' => {
                let line = self.line()?; // UNICODE
                self.stack.push(self.text(line));
            }
            b'S' => {
                let line = self.line()?; // STRING, quoted
                let inner = line.get(1..line.len().saturating_sub(1)).unwrap_or(b"");
                self.stack.push(self.text(inner));
            }
            b')' => self.push_object(Object::Tuple(Vec::new())), // EMPTY_TUPLE
            b']' => self.push_object(Object::List(Vec::new())),  // EMPTY_LIST
            b'}' => self.push_object(Object::Dict(Vec::new())),  // EMPTY_DICT
            0x8f => self.push_object(Object::List(Vec::new())),  // EMPTY_SET
            b't' => {
                let items = self.pop_to_mark()?; // TUPLE
                self.push_object(Object::Tuple(items));
            }
            0x85..=0x87 => self.tuple(usize::from(code - 0x84))?, // TUPLE1 to TUPLE3
            b'l' | 0x91 => {
                let items = self.pop_to_mark()?; // LIST, FROZENSET
                self.push_object(Object::List(items));
            }
            b'd' => {
                let items = self.pop_to_mark()?; // DICT
                self.push_object(Object::Dict(Vec::new()));
                self.extend(items)?;
            }
            b'a' => {
                let item = self.pop()?; // APPEND
                self.extend(vec![item])?;
            }
            b's' => {
                let value = self.pop()?; // SETITEM
                let key = self.pop()?;
                self.extend(vec![key, value])?;
            }
            b'e' | b'u' | 0x90 => {
                let items = self.pop_to_mark()?; // APPENDS, SETITEMS, ADDITEMS
                self.extend(items)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?); // GLOBAL
                let found = self.find_global(module, name)?;
                self.stack.push(found);
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?); // STACK_GLOBAL
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err(self.damaged("a name that is no text"));
                };
                let found = self.find_global(module.as_bytes(), name.as_bytes())?;
                self.stack.push(found);
            }
            b'R' | 0x81 => {
                let arguments = self.pop()?; // REDUCE, NEWOBJ
                let function = self.pop()?;
                self.call(function, arguments)?;
            }
            0x92 => {
                self.pop()?; // NEWOBJ_EX: keywords, arguments, class
                let arguments = self.pop()?;
                let function = self.pop()?;
                self.call(function, arguments)?;
            }
            b'b' => drop(self.pop()?), // BUILD: attributes are of no interest
            b'Q' => {
                let id = self.pop()?; // BINPERSID
                self.persistent(id)?;
            }
            b'q' => {
                let index = self.number::<1>()?; // BINPUT
                self.remember(index)?;
            }
            b'r' => {
                let index = self.number::<4>()?; // LONG_BINPUT
                self.remember(index)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?, // MEMOIZE
            b'h' => {
                let index = self.number::<1>()?; // BINGET
                self.recall(index)?;
            }
            b'j' => {
                let index = self.number::<4>()?; // LONG_BINGET
                self.recall(index)?;
            }
            b'p' | b'g' => {
                let line = self.line()?; // PUT, GET
                let index = self.ascii(line)?;
                if code == b'p' {
                    self.remember(index)?;
                } else {
                    self.recall(index)?;
                }
            }
            _ => {
                return Err(CheckpointError::Opcode {
                    code,
                    at: self.position - 1,
                });
            }
        }
        Ok(())
    }

    /// Text or bytes behind their length of `N` bytes.
    fn counted<const N: usize>(&mut self) -> Result<()> {
        let count = self.number::<N>()?;
        let bytes = self.take(count)?;
        self.stack.push(self.text(bytes));
        Ok(())
    }
}
